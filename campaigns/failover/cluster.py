"""Three nodes of Postgres under Patroni, with one etcd, on loopback, in synchronous mode.

Patroni's times are shorter than those of docs/how-to/run-highly-available.md where it allows that, so that many failovers
take minutes. Nodes have no watchdog: a frozen primary goes on when another one is there, which is the worst case. Patroni
uses the older interface of etcd for that, because before 3.0.3 (PR 2689) a node that goes on takes the lock back by the newer
one, and everything that was acknowledged meanwhile is lost.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import tempfile
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

import psycopg

from campaigns.chaos.rounds import show
from campaigns.chaos.running import Running, last_words
from campaigns.chaos.service import children_of
from campaigns.failover import programs
from campaigns.failover.links import Links
from ledger.postgres.embedded.account import Account, server_account
from ledger.postgres.embedded.ownership import own_directory

NODES: Final = 3
DATABASE: Final = "ledger"
TTL_S: Final = 20
"""How long a primary keeps its lock without renewing it. Patroni accepts no less."""

_HEALTHY_S: Final = 150.0
_ALONE_S: Final = 40.0
"""How long a former primary may need to come back, by itself or made again."""
_PROMOTED_S: Final = 120.0
_LOOK_S: Final = 0.02
_REQUEST_S: Final = 2.0
_SWITCHOVER_S: Final = 60.0
_GONE_S: Final = 10.0

_DYNAMIC: Final = {
    "ttl": TTL_S,
    "loop_wait": 1,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "primary_start_timeout": 0,  # a postmaster that is killed is a failover, and no restart in place
    "maximum_lag_on_failover": 1048576,
    "postgresql": {
        "use_pg_rewind": True,
        "use_slots": False,  # those of a new primary are made seconds after its promotion, and keep its standby away
        "parameters": {
            "synchronous_commit": "on",
            "max_connections": 300,
            "shared_buffers": "64MB",
            "wal_keep_size": "256MB",
            "wal_retrieve_retry_interval": "500ms",  # after a promotion the other standby follows at once
        },
    },
}


class Unhealthy(Exception):
    """The cluster did not become what it should. The message has its state and its last words."""


class Node:
    """A node: Patroni, and the Postgres that it starts. Its numbers in `Links` are `links`, the first one to etcd."""

    def __init__(self, name: str, home: Path, ports: tuple[int, int], links: tuple[int, int, int]) -> None:
        self.name = name
        self.home = home
        self.postgres_port, self.rest_port = ports
        self.links = links
        self._running: Running | None = None
        self._frozen: set[int] = set()

    @property
    def url(self) -> str:
        """The superuser's connection string of this node alone."""
        return f"host=127.0.0.1 port={self.postgres_port} user=postgres dbname=postgres connect_timeout=2"

    def start(self, account: Account | None) -> None:
        """Starts Patroni, which starts Postgres or takes over the one that runs."""
        self._running = programs.start(
            [programs.PATRONI, self.home / "patroni.json"], self.home / "patroni.log", account, PATRONI_LOG_LEVEL="INFO"
        )

    def postmaster(self) -> int | None:
        """Returns the pid of its Postgres, None while there is none."""
        with suppress(OSError, ValueError, IndexError):
            pid = int((self.home / "data" / "postmaster.pid").read_text().split()[0])
            return pid if programs.is_running(pid, "postgres") else None
        return None

    def kill_postgres(self) -> None:
        """Sends SIGKILL to the postmaster."""
        if (pid := self.postmaster()) is not None:
            programs.send(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Sends SIGKILL to Patroni and to the postmaster, as if the machine were lost."""
        self._patroni().kill_group()
        self.kill_postgres()
        self._frozen.clear()

    def freeze_patroni(self) -> None:
        """Sends SIGSTOP to Patroni alone: the primary goes on without renewing its lock."""
        self._freeze(self._patroni().pid)

    def freeze(self) -> None:
        """Sends SIGSTOP to Patroni and to every process of Postgres."""
        self.freeze_patroni()
        if (pid := self.postmaster()) is not None:
            self._freeze(pid)
            for child in children_of(pid):
                self._freeze(child)

    def thaw(self) -> None:
        """Lets everything that is frozen go on."""
        while self._frozen:
            programs.send(self._frozen.pop(), signal.SIGCONT)

    def end(self) -> None:
        """Ends its processes, and waits for them."""
        self.thaw()
        if self._running is not None and self._running.runs:
            self._running.kill_group()
        deadline = time.monotonic() + _GONE_S
        while (pid := self.postmaster()) is not None and time.monotonic() < deadline:
            programs.send(pid, signal.SIGQUIT)
            time.sleep(0.1)

    def last_words(self) -> str:
        return last_words(self.home / "patroni.log", 6)

    def _patroni(self) -> Running:
        assert self._running is not None, "it was started"
        return self._running

    def _freeze(self, pid: int) -> None:
        self._frozen.add(pid)
        programs.send(pid, signal.SIGSTOP)


class Cluster:
    """Three nodes and etcd, in a `with` block. Nothing that is started here outlives it."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ledger-failover-", dir="/tmp"))
        self.account = server_account()
        self._stack = ExitStack()
        etcd, peer, *ports = programs.free_ports(2 + 2 * NODES)
        self._etcd_port, self._peer_port = etcd, peer
        pairs = list(zip(ports[::2], ports[1::2], strict=True))
        self._links = Links([port for pair in pairs for port in (etcd, *pair)])
        self.nodes = [
            Node(f"node{n + 1}", self.home / f"node{n + 1}", pair, (3 * n, 3 * n + 1, 3 * n + 2))
            for n, pair in enumerate(pairs)
        ]

    def __enter__(self) -> Self:
        self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """The owner's connection string of the ledger's database on whichever node is the primary."""
        hosts = ",".join("127.0.0.1" for _ in self.nodes)
        ports = ",".join(str(node.postgres_port) for node in self.nodes)
        return f"host={hosts} port={ports} user=postgres dbname={DATABASE} target_session_attrs=read-write"

    def leader(self) -> Node:
        """Returns the primary by what Patroni says. Raises Unhealthy if there is none."""
        for member in self._members():
            if member["role"] == "leader":
                return self.node(member["name"])
        raise Unhealthy("no node is the primary")

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    async def healthy(self) -> None:
        """Returns once one node is the primary, another its synchronous standby, and the third one follows it too.

        A former primary that does not come back by itself is made again from the new one, as an operator would do with
        `patronictl reinit`. Raises Unhealthy.
        """
        began, times_made_again = time.monotonic(), 0
        while not self._is_healthy(members := await asyncio.to_thread(self._members)):
            waited_s = time.monotonic() - began
            if waited_s > _ALONE_S * (times_made_again + 1):
                times_made_again += 1
                await asyncio.to_thread(self._make_again)
            if waited_s > _HEALTHY_S:
                words = "\n".join(f"{node.name}: {node.last_words()}" for node in self.nodes)
                raise Unhealthy(f"the nodes are {json.dumps(members)}\n{words}")
            await asyncio.sleep(0.3)

    async def promoted(self, former: Node) -> float:
        """Returns when a node other than `former` became the primary, by the monotonic clock, to some hundredths of a
        second. Raises Unhealthy if none does.
        """
        looking = {asyncio.create_task(_promotion(node)) for node in self.nodes if node is not former}
        try:
            done, _ = await asyncio.wait(looking, timeout=_PROMOTED_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in looking:
                task.cancel()
        if not done:
            raise Unhealthy(f"no node was promoted within {_PROMOTED_S:g} s: {former.last_words()}")
        return done.pop().result()

    async def switch_over(self, leader: Node) -> None:
        """Asks Patroni to make the synchronous standby the primary. Returns when it has."""
        await asyncio.to_thread(_ask, leader.rest_port, "switchover", {"leader": leader.name}, _SWITCHOVER_S)

    def cut_off(self, node: Node) -> None:
        """Cuts a node off from etcd and from the other nodes."""
        self._links.cut(node.links)

    def cut_standbys_off(self, node: Node) -> None:
        """Cuts the standbys off from their primary."""
        self._links.cut(node.links[1:2])

    def join(self, node: Node) -> None:
        """Ends both."""
        self._links.join(node.links)

    def _members(self) -> list[dict[str, Any]]:
        for node in self.nodes:
            with suppress(OSError, ValueError):
                members: list[dict[str, Any]] = _ask(node.rest_port, "cluster")["members"]
                return members
        return []

    def _is_healthy(self, members: list[dict[str, Any]]) -> bool:
        roles = sorted(member["role"] for member in members)
        runs = all(member["state"] in {"running", "streaming"} for member in members)
        alike = len({member.get("timeline") for member in members}) == 1
        return roles == ["leader", "replica", "sync_standby"] and runs and alike and self._is_followed()

    def _is_followed(self) -> bool:
        with suppress(psycopg.Error, Unhealthy), psycopg.connect(self.leader().url, autocommit=True) as connection:
            rows = connection.execute("select sync_state from pg_stat_replication where state = 'streaming'").fetchall()
            return sorted(state for (state,) in rows) == ["async", "sync"]
        return False

    def _make_again(self) -> None:
        """Has each standby that does not follow the primary made from it."""
        with suppress(psycopg.Error, Unhealthy), psycopg.connect(self.leader().url, autocommit=True) as connection:
            # One whose log has gone another way connects again and again, and never streams.
            streams = "select application_name from pg_stat_replication where state = 'streaming'"
            following = {name for (name,) in connection.execute(streams)}
            for node in self.nodes:
                if node is not self.leader() and node.name not in following:
                    show(f"  {node.name} does not come back, and is made again")
                    try:
                        _ask(node.rest_port, "reinitialize", {"force": True})
                    except OSError as refused:
                        show(f"  {node.name} is not made again: {refused}")

    def _start(self) -> None:
        own_directory(self.home, self.account)
        etcd = self._in("etcd")
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        options = {
            "data-dir": etcd,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "enable-v2": "true",
        }
        self._stack.enter_context(
            programs.start(
                [programs.ETCD, *(f"--{name}={value}" for name, value in options.items())],
                self.home / "etcd.log",
                self.account,
            )
        )
        self._stack.enter_context(self._links)
        ports = self._links.ports()
        for node in self.nodes:
            self._in(node.name)
            (node.home / "patroni.json").write_text(json.dumps(_patroni(node, ports)))
            (node.home / "patroni.json").chmod(0o644)
            self._stack.callback(node.end)
            node.start(self.account)

    def _in(self, name: str) -> Path:
        place = self.home / name
        place.mkdir()
        own_directory(place, self.account)
        return place


def _patroni(node: Node, links: list[int]) -> dict[str, Any]:
    """Returns Patroni's configuration of a node. Every user may connect from this machine."""
    etcd, postgres, rest = (links[number] for number in node.links)
    rules = ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
    return {
        "scope": "ledger",
        "name": node.name,
        "restapi": {"listen": f"127.0.0.1:{node.rest_port}", "connect_address": f"127.0.0.1:{rest}"},
        "etcd": {"hosts": [f"127.0.0.1:{etcd}"], "use_proxies": True},
        "bootstrap": {"dcs": _DYNAMIC, "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"]},
        "postgresql": {
            "listen": f"127.0.0.1:{node.postgres_port}",
            "connect_address": f"127.0.0.1:{postgres}",
            "data_dir": str(node.home / "data"),
            "bin_dir": str(programs.POSTGRES),
            "pgpass": str(node.home / "pgpass"),
            "authentication": {
                "superuser": {"username": "postgres"},
                "replication": {"username": "replicator"},
                "rewind": {"username": "postgres"},
            },
            "parameters": {"unix_socket_directories": str(node.home)},
            "basebackup": [{"checkpoint": "fast"}],
            "pg_hba": rules,
        },
    }


async def _promotion(node: Node) -> float:
    """Returns when a standby has become the primary. Connects again as often as it has to."""
    while True:
        with suppress(psycopg.Error):
            async with await psycopg.AsyncConnection.connect(node.url, autocommit=True) as connection:
                while await _is_standby(connection):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(_LOOK_S)
                return time.monotonic()
        await asyncio.sleep(_LOOK_S)


async def _is_standby(connection: psycopg.AsyncConnection[Any]) -> bool:
    row = await (await connection.execute("select pg_is_in_recovery()")).fetchone()
    assert row is not None, "a select without from has a row"
    return bool(row[0])


def _ask(port: int, what: str, body: object = None, timeout_s: float = _REQUEST_S) -> dict[str, Any]:
    """Returns the answer of a node's Patroni. Raises OSError, or ValueError for an answer that is no JSON object."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{what}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout_s) as response:
        text = response.read().decode()
    if body is not None:
        return {}
    answer: dict[str, Any] = json.loads(text)
    return answer
