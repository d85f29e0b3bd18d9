"""The customer of a merchant: its own stream, created or reused by the orders that name it."""
