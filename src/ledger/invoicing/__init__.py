"""Electronic invoices outside the pure core: building, stamping and keeping the documents that an order announced.

In reading order:

- `contract`: what an operation may ask of a stamping provider, and what a provider may answer.
- `providers`: the simulated provider, and the adapter to the providers of production.
- `issuers`: the certificates with which merchants seal their documents.
- `files`: the stored XML and PDF of stamped documents, and signed links to them.
- `pdf`: the printed form of a stamped document.
"""
