"""Which schedules a task may have: sketches, their knobs, and what a model of the CPU says of them."""
