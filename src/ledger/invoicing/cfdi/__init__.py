"""Writes the frozen terms of a document as a sealed CFDI 4.0.

`build` is the way in. `amounts` writes amounts in pesos or dollars, `taxes` and `payments` their nodes. `schemas`
validates a document against SAT's schemas. Import this package only where a document is built: satcfdi is slow to
import.
"""
