"""Design spaces: knobs, sketches, batches of points."""
