"""Products in narrow types, several in a row, as they stand in a model: kernels alone, and beside other runtimes."""
