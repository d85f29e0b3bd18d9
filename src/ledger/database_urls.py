"""Checks connection strings before anything is connected, because libpq's own messages repeat what it cannot read.

Put no part of a connection string into a message: a password with an unescaped character may be in any part of it.
"""

from __future__ import annotations

import re
from typing import Final

_NOWHERE: Final = "/nonexistent-ledger"
"""A socket's directory that does not exist: libpq checks every option before it tries to connect to it."""
_WHOLE_NUMBERS: Final = frozenset(
    {
        "connect_timeout",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "sslcompression",
    }
)
"""Options that libpq checks only when it connects."""
_SHAPE: Final = (
    "must be a connection string of libpq, as postgresql://user:password@host:5432/database or host=… user=… "
    "dbname=…; write %40 for an @ in a password in a URI, %2F for a / and %3A for a :"
)


def wrong_with(url: str) -> str | None:
    """Returns what is wrong with a connection string, without any part of its values, or None."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import PGconn

    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, UnicodeError, ValueError):
        return _SHAPE
    if re.match(r"postgres(ql)?://([^@?]*@[^?]*@|[^@/?]*/[^?]*@)", url):  # the @ of a password, or the / before it
        return _SHAPE
    if any(
        not re.fullmatch(r"\d{0,5}", port) or int(port or 1) not in range(1, 65536) for port in _each(parts, "port")
    ):
        return f"has a wrong port: it {_SHAPE}"
    for name in _WHOLE_NUMBERS & parts.keys():
        if not re.fullmatch(r"-?\d{1,9}", parts[name]):
            return f"has a wrong value for {name}"
    hosts = ",".join(_NOWHERE for _ in _each(parts, "hostaddr" if "hostaddr" in parts else "host"))
    try:
        elsewhere = make_conninfo(**{**parts, "host": hosts, "hostaddr": ""})
        tried = PGconn.connect_start(elsewhere.encode()).error_message.decode(errors="replace")
    except (psycopg.Error, UnicodeError, ValueError):
        return _SHAPE
    if tried and not tried.startswith("connection to server"):
        option = next((name for name in parts if re.search(rf"\b{name}\b", tried)), None)
        return f"has a wrong value for {option}" if option else _SHAPE
    return None


def _each(parts: dict[str, str], name: str) -> list[str]:
    return parts.get(name, "").split(",")
