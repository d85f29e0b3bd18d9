"""The parts of a measurement.

In reading order:

- `samples`: samples, taken in turns and compared.
- `resources`: processor time and memory. `budget`: what operations may cost.
- `report`: ratios beside their targets, for people and as JSON. `curve`: a picture of ratios by size.
"""
