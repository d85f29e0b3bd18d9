"""What can be done with an order, a module for each operation."""
