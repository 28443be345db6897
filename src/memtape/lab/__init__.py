"""Evidence: conformance to golden vectors, and benchmarks."""
