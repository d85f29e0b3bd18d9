"""Electronic invoices outside the pure core: building, stamping and keeping the documents that an order announced.

In reading order:

- `invoicing`: what operations work with. `contract`: what an operation may ask of a stamping provider, and what a
  provider may answer.
- `providers`: the simulated provider, and the adapter to the providers of production.
- `issuers`: the certificates with which merchants seal their documents. `certificates`: what makes one acceptable.
- `logos`: the pictures on printed documents.
- `files`: the stored XML and PDF of stamped documents, and signed links to them.
- `stamped_xml`: the XML of a document, read without trust. `database`: a connection that opens on demand.
- `cfdi`: writes and seals a document. `catalogs`: SAT's postal codes, and their time zones.
- `pdf`: the printed form of a stamped document.
"""
