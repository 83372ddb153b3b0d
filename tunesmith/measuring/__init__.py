"""When to stop sampling, when to give up a candidate, how sure a latency is. Pure."""
