"""What can be done with products. `import_products`: creates and updates up to a thousand of them in one commit."""
