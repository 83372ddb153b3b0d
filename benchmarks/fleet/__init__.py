"""Many jobs on a simulated fleet: fair shares, busy devices, and what a decision takes."""
