"""The ways from a service to the primary: all nodes in the connection string, HAProxy, and pgbouncer in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import psycopg

from campaigns.failover import programs
from campaigns.failover.cluster import DATABASE, Cluster
from ledger.postgres.embedded.ownership import own_directory

NAMES: Final = ("hosts", "haproxy", "pgbouncer")


@contextmanager
def routes(cluster: Cluster) -> Iterator[Mapping[str, str]]:
    """Yields the owner's connection string of each route. The ledger's database must be there."""
    haproxy, pgbouncer = programs.free_ports(2)
    with ExitStack() as stack:
        stack.enter_context(
            programs.start(
                [programs.HAPROXY, "-db", "-f", _haproxy(cluster, haproxy)],
                cluster.home / "haproxy.log",
                cluster.account,
            )
        )
        stack.enter_context(
            programs.start(
                [programs.PGBOUNCER, "--quiet", _pgbouncer(cluster, haproxy, pgbouncer)],
                cluster.home / "pgbouncer.log",
                cluster.account,
            )
        )
        through = {
            name: f"host=127.0.0.1 port={port} user=postgres dbname={DATABASE}"
            for name, port in (("haproxy", haproxy), ("pgbouncer", pgbouncer))
        }
        yield {"hosts": cluster.url, **through}


def _haproxy(cluster: Cluster, port: int) -> str:
    """Writes the configuration of docs/how-to/run-highly-available.md for these nodes, and returns its path."""
    servers = "".join(
        f"  server {node.name} 127.0.0.1:{node.postgres_port} check port {node.rest_port}\n" for node in cluster.nodes
    )
    path = cluster.home / "haproxy.cfg"
    path.write_text(
        f"""defaults
  mode tcp
  retries 0
  timeout connect 2s
  timeout check 2s
  timeout client 24h
  timeout server 24h
  option clitcpka
  option srvtcpka
listen ledger_primary
  bind 127.0.0.1:{port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}"""
    )
    path.chmod(0o644)
    return str(path)


def _pgbouncer(cluster: Cluster, server: int, port: int) -> str:
    """Writes the configuration of a pooler in session mode, and returns its path. Every role is known and trusted."""
    with psycopg.connect(cluster.url) as connection:
        row = connection.execute("select oid from pg_database where datname = current_database()").fetchone()
    assert row is not None, "the database is there"
    place = cluster.home / "pgbouncer"
    own_directory(place, cluster.account)
    roles = ("postgres", f"ledger_app_{row[0]}", f"ledger_vault_{row[0]}")
    (place / "users").write_text("".join(f'"{role}" ""\n' for role in roles))
    (place / "pgbouncer.ini").write_text(
        f"""[databases]
{DATABASE} = host=127.0.0.1 port={server} dbname={DATABASE}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = session
default_pool_size = 200
max_client_conn = 400
server_login_retry = 0.2
auth_type = trust
auth_file = {place}/users
"""
    )
    for file in place.iterdir():
        file.chmod(0o644)
    return str(place / "pgbouncer.ini")
