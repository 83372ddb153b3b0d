"""exp, log, erf, tanh and sigmoid of float32 as arithmetic that a compiler vectorises.

LLVM turns a vector of ``exp`` into a call of the C library for each lane, which no schedule can repair.
"""
