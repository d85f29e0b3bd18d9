"""Writes the frozen terms of a document as a sealed CFDI 4.0.

Import this package only where a document is built: satcfdi is slow to import.

In reading order:

- `build`: from the terms of a document to its bytes. `taxes`, `payments`: its nodes of taxes and of payments.
- `amounts`: amounts in pesos or dollars.
"""
