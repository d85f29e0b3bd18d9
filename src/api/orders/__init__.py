"""The endpoints of payment orders, one file each: the body's shape, its parser, the endpoint function, its description.

A struct describes what a field may look like, in every spelling that the contract accepts; the parser checks what the
fields mean together. If two names of a field are accepted, both are in the struct: the parser takes the one that
came and refuses two that differ. A misspelt name is refused; other unknown fields are ignored, so that a client may
be newer than the service. `null` is the same as absent, except in a customer's details and in changes of an order, of
which it takes a value away.

In reading order:

- `create`: creates an order; read it first. `change`: changes its terms. `charge`, `add_payment`: pay an order, and a
  part of one.
- `authenticate`: continues after the payer acted. `capture`, `release`, `cancel`, `refund`: what their names mean.
  `payout`: a refund that the merchant pays out itself.
- `show`, `list`: one order, and a page of them. `payments`, `refunds`: what an order has of them.
  `past`: the order as it was.
- `invoices`: the endpoints of an order's electronic invoices. `responses`: what the endpoints share.
"""
