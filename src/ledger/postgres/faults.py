"""Failures of the infrastructure: the request was right, and the answer is 503."""

from __future__ import annotations


class Fault(Exception):
    """Infrastructure said no: answered 503, and nothing about the request was wrong."""


class DatabaseUnavailable(Fault):
    """The database cannot be reached, or went away before it said whether it had committed and turned out not to have."""


class QueueFull(Fault):
    """More commands wait than the journal accepts: come back in a moment."""
