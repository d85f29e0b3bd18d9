"""What an order's timers run when they fall due.

In reading order:

- `timers`: expiries, delayed captures and lapsed authorisations. `remind`: reminds the payer of the due date.
"""
