"""The performance dataset: records as files, which workloads are labelled, and how many programs of each."""
