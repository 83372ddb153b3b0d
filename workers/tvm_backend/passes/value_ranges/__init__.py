"""Values that inputs of a program may have: inside what they index, no zero divisors, where functions are defined."""
