"""Failures of the infrastructure: the request is valid, and the answer is 503."""

from __future__ import annotations

from typing import Final

import psycopg


class Fault(Exception):
    """A failure of the infrastructure. The request is valid and is answered 503."""


class DatabaseUnavailable(Fault):
    """The database is unreachable, or the connection broke and the commit is known to have failed."""


UNAVAILABLE: Final = (psycopg.OperationalError, psycopg.InternalError, psycopg.errors.InsufficientPrivilege)
"""Errors of the server that no statement of ours is to blame for: it is away, has ended a session that waited, became
read only, or took a right away.
"""


class QueueFull(Fault):
    """Too many commands or reads wait. The client may retry in a moment."""
