"""Everything pure: terms, events, state, decisions. It imports msgspec and the pure standard library alone."""
