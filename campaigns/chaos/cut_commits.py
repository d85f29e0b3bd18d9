"""Connections to Postgres that are cut after COMMIT was sent, before it was, and in the middle of the answer.

The outcome of such a batch is unknown to the service at first, and every client gets a true answer nevertheless. Never touch a
client's connection to the service.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from random import Random
from typing import Any

from campaigns.chaos.clients import Ended
from campaigns.chaos.proxy import SYNC, Proxy, Wire, proxied
from campaigns.chaos.rounds import RECOVERED, Campaign, Unmet, show
from campaigns.chaos.service import Service
from ledger.postgres.embedded import cluster, server
from ledger.postgres.embedded.data_dir import make_data_dir

_CUTS = 20
_CUT_PATIENCE_S = 5.0
_EXPLAINED = frozenset({200, 201, 404, 409, 422, 503})
_WRITERS = frozenset({"ledger-writer", "ledger-large-commits", "ledger-sandbox-calls"})


class Cutter:
    """Cuts one writing connection each time that it is armed."""

    def __init__(self) -> None:
        self.where = ""
        self.cut = Counter[str]()

    def __call__(self, wire: Wire, piece: bytes, from_client: bool) -> int | None:
        where = self.where
        if wire.name not in _WRITERS or not where or (where == "answer") == from_client:
            return None
        if from_client and SYNC not in piece[-2 * len(SYNC) :]:
            return None
        self.where = ""
        self.cut[where] += 1
        return {"before": piece.rfind(SYNC), "after": len(piece), "answer": len(piece) // 2}[where]


class ThroughProxy(Service):
    """`ledger serve` on a Postgres of the harness, behind a proxy that cuts connections."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        place = make_data_dir(self.home / "postgres")
        self._server = server.start(cluster.open_cluster(place), settings={"max_connections": "200"})
        self._ended = threading.Event()
        self._proxying = threading.Thread(target=lambda: asyncio.run(self._proxy_until_ended()))
        self._proxying_loop: asyncio.AbstractEventLoop | None = None
        self._proxy_is_up = threading.Event()
        self._proxying.start()
        assert self._proxy_is_up.wait(10), "the proxy does not come up"
        self._environ["LEDGER_DATABASE_URL"] = self.proxy.url
        self.cutter = Cutter()
        self.proxy.decide = self.cutter

    proxy: Proxy

    def __exit__(self, *reason: object) -> None:
        try:
            self.stop()
        finally:
            self._ended.set()
            self._proxying.join()
            self._server.stop()
            super().__exit__(*reason)

    def part_from_database(self, pid: int | None) -> None:
        """Forwards nothing between this process and Postgres until None is given."""
        assert self._proxying_loop is not None, "the proxy is up"
        part = self.proxy.join if pid is None else partial(self.proxy.part, pid)
        self._proxying_loop.call_soon_threadsafe(part)

    def database(self) -> AbstractContextManager[str]:
        return self._directly()

    @contextmanager
    def _directly(self) -> Iterator[str]:
        yield self._server.url

    async def _proxy_until_ended(self) -> None:
        self._proxying_loop = asyncio.get_running_loop()
        async with proxied(self._server.url) as self.proxy:
            self._proxy_is_up.set()
            while not self._ended.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.05)


async def _cut(service: Service, random: Random) -> None:
    assert isinstance(service, ThroughProxy), "the campaign makes one"
    for _ in range(_CUTS):
        service.cutter.where = random.choice(("after", "after", "before", "answer"))
        until = time.monotonic() + _CUT_PATIENCE_S
        while service.cutter.where:
            if time.monotonic() > until:
                raise Unmet("no commit has arrived for too long")
            await asyncio.sleep(0.005)
        await asyncio.sleep(random.uniform(0.05, 0.2))
    show(f"  cut so far: {', '.join(f'{where} {n}' for where, n in sorted(service.cutter.cut.items()))}")


def _only_503(around: Sequence[Ended]) -> list[str]:
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    return [f"{n} requests were answered with {status or 'nothing'}" for status, n in odd.items()]


CUT_COMMITS = Campaign(
    name="cut-commits",
    about=f"{_CUTS} cuts a round of connections that have just sent COMMIT, are about to, or hear the answer",
    strike=_cut,
    expects=_only_503,
    make=ThroughProxy,
    beyond=frozenset({RECOVERED}),
    rounds=50,
)
