"""The calls to the stamping provider, for every kind of document.

In reading order:

- `provider_call`: what all of these calls have. `stamping_call`: has a document stamped, and stores its files.
  `cancellation_call`: has a stamped document cancelled.
- `building`: the sealed CFDI of a document, and its printed form.
"""
