"""Failures of the infrastructure: the request is valid, and the answer is 503."""

from __future__ import annotations

from typing import Final

import psycopg


class Fault(Exception):
    """A failure of the infrastructure. The request is valid and is answered 503."""


class DatabaseUnavailable(Fault):
    """The database is unreachable, or the connection broke and the commit is known to have failed."""


UNAVAILABLE: Final = (psycopg.OperationalError, psycopg.InternalError, psycopg.errors.InsufficientPrivilege)
"""Errors that no statement of ours causes: the server is away, has ended a waiting session, became read only, or a
right was revoked.
"""


def one_line(failure: BaseException) -> str:
    """Returns the words of an error in one line, without the statement in which the database found it."""
    words = failure.diag.message_primary if isinstance(failure, psycopg.Error) else None
    return " ".join((words or str(failure)).split()) or type(failure).__name__


class QueueFull(Fault):
    """Too many commands or reads wait. The client may retry in a moment."""


class ReadModelBehind(Fault):
    """Rows lack columns that a newer release has, until an operator runs `ledger rebuild`."""
