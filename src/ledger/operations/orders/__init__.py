"""What can be done with an order, a module for each operation.

In reading order:

- `create`: creates an order, and charges one. `add_payment`: pays a part. `new_payment`: builds the payment of both.
  `change`: changes its terms. `customers_fiscal_data`: the receiver that a new order takes over from its customer.
- `order_request`: executes a request on an order. `processor_call`: the calls to processors that events announce.
  `open_calls`: those that the recovery looks up.
- `authenticate`: continues a payment after its payer acted. `payer_return`: asks about it when the payer is back.
  `capture`, `release`, `cancel`, `refund`: what their
  names mean. `payout`: refunds that the merchant pays out itself.
- `invoices`: the order's electronic invoices: stamping and cancellation.
- `due`: runs what falls due, reminders included. `deposits`: an order as a deposit left it.
- `history`: its past, event by event.
- `payment_lookup`: the payments by their aliases. It owns a table.
"""
