"""How a page of orders is searched: lines of text, packed into blocks and counted."""
