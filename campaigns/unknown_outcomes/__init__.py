"""A payment processor that fails in every way, while the service is killed or disturbed.

- `command`: the options. `campaign`: the payments. `disturbances`: stops, cuts and clocks.
- `comparison`: the processor's record beside the log.
- `stripe`: the same at Stripe's substitutes. `stripe_lists`: Stripe's own lists beside the log.
"""
