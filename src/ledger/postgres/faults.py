"""Failures of the infrastructure: the request is valid, and the answer is 503."""

from __future__ import annotations


class Fault(Exception):
    """A failure of the infrastructure. The request is valid and is answered 503."""


class DatabaseUnavailable(Fault):
    """The database is unreachable, or the connection broke and the commit is known to have failed."""


class QueueFull(Fault):
    """Too many commands or reads wait. The client may retry in a moment."""
