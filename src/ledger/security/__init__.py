"""The master key and what is derived from it; API keys."""
