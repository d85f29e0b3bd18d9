"""The fold of an order: from the state and an event to the next state.

In reading order:

- `order`: the entry point, `evolve`, and the table of all events. Each other module has the table of its own events.
- `payments`: one payment in its order. `card`: the steps of a card payment.
- `pending`: what a payment waits for: authentication, a reference, a deposit, a void, an expiry.
- `releases`: the end of the hold on what a capture has left.
- `after_capture`: refunds, settlement. `disputes`: disputes and chargebacks.
- `whole_order`: changes of the order's terms, its cancellation, the erasure of its payer, its reminders, its invoices.
- `reminders`: the reminders of its due date.
- `unanswered_calls`: calls without an answer, and abandoned calls. `history`: the entries of a payment.
"""
