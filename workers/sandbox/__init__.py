"""Processes that may crash, hang or be killed, and what keeps them from hurting anything else."""
