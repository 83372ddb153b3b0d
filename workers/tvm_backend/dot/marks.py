"""How a schedule says which loops an instruction takes the place of."""

MARK = "tunesmith.dot"
"""Annotation of a loop over lanes; its value is the name of an intrinsic."""
