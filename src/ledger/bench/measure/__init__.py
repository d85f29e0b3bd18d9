"""Limits, samples, resources and reports."""
