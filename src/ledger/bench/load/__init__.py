"""What the benchmarks load the service with."""
