"""Stamping providers: the simulated one, and the adapter to those of production."""
