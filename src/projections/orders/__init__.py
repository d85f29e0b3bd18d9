"""One order: its documents, how they are rendered, and the table that holds them."""
