"""``tunesmith bench gpu``: products of matrices tuned on this machine's GPU by jobs of the service."""
