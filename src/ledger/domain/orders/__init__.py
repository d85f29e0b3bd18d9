"""The payment order: its terms, its payments and refunds, what can happen to them, and who decides it.

Everything here is pure. `decide…(order, command)` returns the events that follow from a command, or raises a
`Rejected`; an empty list means that the order is in the wanted state already. `evolve(order, event)` returns the order
after one event and never refuses.

In reading order:

- `terms`: what the merchant fixes when it creates the order. `events`: everything that can happen, as it is stored.
- `statuses`: the statuses of orders and payments, and the legal moves between them.
- `payment`, `refund`, `state`: one payment, one refund, and the order with its sums and its derived status.
- `commands`: what clients and workers ask for. `processor_outcomes`: what a processor can answer.
  `capabilities`: what an account of a processor takes.
  `validity`: how long an authorisation, a challenge, a reference are valid. `order_number`: the form of one.
- `decide`: from a command to events, a module for each subject. `evolve`: from an event to the next state.
- `invoices`: the events and the state of its electronic invoices. `global_invoices`: the stream of one for many orders.
- `surcharge`: the division of gross amounts. `timers`: what falls due by the clock. `declines`: the decline codes.
"""
