"""What can be done with products.

In reading order:

- `import_products`: creates and updates up to a thousand of them in one commit.
"""
