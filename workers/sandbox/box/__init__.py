"""A box around code that nobody trusts: what it may read, write and use, enforced by the kernel (Linux)."""
