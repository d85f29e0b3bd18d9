"""Plans, subscriptions and the invoices of subscriptions: their documents, their rows, and pages of them.

In reading order:

- `plans`, `subscriptions`, `invoices`: a document, the row that holds it, and pages of it.
"""
