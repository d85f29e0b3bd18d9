"""The deciders of an order's electronic invoices.

`stamping` decides which document is stamped next and records the outcome of its call. `announcements` draws up the
documents that are due, and raises what a document lacks. `cancellation` cancels stamped documents. `deadlines` warns
of payment receipts whose deadline is near.
"""
