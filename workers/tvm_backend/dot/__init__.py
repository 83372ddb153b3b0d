"""Products of bfloat16 pairs: the bits as expressions, and the instruction as a tensor intrinsic."""
