"""Endpoints for operators and for people: health, metrics, the API reference page."""
