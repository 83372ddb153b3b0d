"""Single operators: how near they come to the machine's limit, beside MetaSchedule and other runtimes."""
