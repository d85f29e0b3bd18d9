"""Personal data in events, and the keys that seal it."""
