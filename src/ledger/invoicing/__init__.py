"""Electronic invoices outside the pure core: building, stamping and keeping the documents that an order announced.

In reading order:

- `invoicing`: the value that operations use. `contract`: the requests to a stamping provider, and its possible answers.
- `providers`: the simulated provider, and the adapter to the providers of production.
- `issuers`: the certificates with which merchants seal their documents. `certificates`: checks of one.
  `locked_keys`: opens private keys under a password.
- `logos`: the pictures on printed documents.
- `files`: the stored XML and PDF of stamped documents, and signed links to them. `self_invoice_links`: signed links to
  the page on which a payer requests an invoice.
- `stamped_xml`: the XML of a document, read without trust. `database`: a connection that opens on demand.
- `cfdi`: writes and seals a document. `catalogs`: SAT's postal codes, products and units, and the names of codes.
  `line_keys`: what of a line is in no catalogue.
- `pdf`: the printed form of a stamped document.
"""
