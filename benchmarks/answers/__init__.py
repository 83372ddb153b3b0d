"""What is chosen without a measurement, beside what searches find."""
