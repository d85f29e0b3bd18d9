"""The endpoints of products, one file each. They need the API key alone (section "Authentication" of the interface).

In reading order:

- `bulk_import`: creates and updates products. `list`, `show`: a page of products, and one of them.
"""
