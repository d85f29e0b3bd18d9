"""The endpoints of products, one file each. They need the API key alone (section "Authentication" of the interface).

`bulk_import` creates and updates products; `list` and `show` read them.
"""
