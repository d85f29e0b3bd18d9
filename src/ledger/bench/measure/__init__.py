"""The parts of a measurement.

In reading order:

- `samples`: samples, taken in turns and compared. `limits`: R (single INSERTs by pgbench) and E (a bare echo).
- `resources`: processor time and memory. `report`: ratios beside their targets, for people and as JSON.
"""
