"""The simulated processor."""
