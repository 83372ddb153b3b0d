"""The way in from Python: from the object at hand to a function that is fast."""
