"""How the events of an order change its state."""
