"""The endpoints of an order's electronic invoices: stamping, links to the files, cancellation.

In reading order:

- `stamp`: stamps what is pending or failed. `cfdi_url`: links to the files. `cancel`: cancels a document with SAT.
- `self_invoice_url`: the link by which a payer requests the invoice.
- `month_end`: a month's documents for the accountant.
- `fields`: what several of them take.
"""
