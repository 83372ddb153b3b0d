"""Exported PyTorch programs into Relax."""
