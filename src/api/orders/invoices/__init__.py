"""The endpoints of an order's electronic invoices: stamping, links to the files, cancellation.

`fields` reads what several of them take. Every endpoint has a module of its own.
"""
