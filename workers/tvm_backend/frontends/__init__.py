"""Models into Relax: one door for every source of a model."""
