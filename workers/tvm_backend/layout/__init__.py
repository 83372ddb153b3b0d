"""Layouts across a model's graph: feature maps in blocks of channels, weights packed once."""
