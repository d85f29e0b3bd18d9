"""The operations on an order's electronic invoices.

In reading order:

- `provider_calls`: the calls to the stamping provider. `document_request`: how a request that makes them is answered.
- `stamp`: announces documents that are due, and starts their stamping. `cancel`: cancels stamped documents.
- `self_invoice`: stamps the invoice that the payer of an order requests.
- `printed_notes`: what a printed document shows of its order. `mail`: mails stamped documents.
- `deadline`: warns of missing receipts.
- `policy`: the settings of the merchant. `stampable`: refuses new orders that no invoice can state.
"""
