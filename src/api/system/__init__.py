"""Endpoints for operators and for people: health, metrics, the API reference page, signed links to files."""
