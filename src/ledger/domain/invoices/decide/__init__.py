"""The deciders of an order's electronic invoices.

In reading order:

- `stamping`: which document is stamped next, and the outcome of its call.
- `announcements`: draws up the documents that are due, and raises what a document lacks.
- `cancellation`: cancels stamped documents. `deadlines`: warns of payment receipts whose deadline is near.
- `mail`: mails a stamped document, once.
"""
