"""Plants differences between the log and a processor, and counts those that a comparison finds.

- `days`: simulated days, by the pure comparison.
- `planting`: what is planted and found by the real comparison. `sandbox`, `stripe`: where it is planted.
- `command`: all of it, with its figures.
"""
