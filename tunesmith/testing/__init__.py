"""Conformance suites, synthetic spaces and a simulated device, for tests and benchmarks."""
