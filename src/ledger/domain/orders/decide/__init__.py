"""What may happen to an order: a module for each kind of decision."""
