"""Pages of orders: what a list may be asked for, its SQL, and the connections that it runs on."""
