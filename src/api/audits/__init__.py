"""Audits of the merchant's log, which the worker carries out.

In reading order:

- `create`: asks for one. `list`: pages of them. `show`: one with its report, as JSON or as a page.
"""
