"""The performance dataset: which workloads are labelled, and how many programs of each."""
