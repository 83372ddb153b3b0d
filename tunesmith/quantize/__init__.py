"""Makes int8 models of float32 ones, from inputs that the user gives."""
