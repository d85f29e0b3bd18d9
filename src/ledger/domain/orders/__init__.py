"""The payment order: read events, state (with payment, status, surcharge), evolve, commands, decide (with settle), in this order.

Everything here is pure. `decide…(order, command)` returns the events that should happen or raises a `Rejected`;
`evolve(order, event)` returns the order after one of them and never refuses.
"""
