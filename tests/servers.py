"""Connection strings that name several servers."""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict, make_conninfo


def address_of(url: str) -> tuple[str, str]:
    """Returns the host and the port of a server."""
    parts = conninfo_to_dict(url)
    return str(parts["host"]), str(parts.get("port") or 5432)


def naming(url: str, *addresses: tuple[str, str]) -> str:
    """Returns the connection string that names all these servers and seeks the primary."""
    hosts, ports = zip(*addresses, strict=True)
    return make_conninfo(url, host=",".join(hosts), port=",".join(ports), target_session_attrs="read-write")
