"""Cost models: per-store features of programs in, scores out."""
