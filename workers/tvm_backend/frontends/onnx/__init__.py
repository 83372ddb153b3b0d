"""ONNX files into Relax."""
