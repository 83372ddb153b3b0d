"""Helpers of the Makefile; nothing that the product imports."""
