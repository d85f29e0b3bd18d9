"""The journal beside other ways to append to an event store, on one Postgres, with the same event of 300 bytes.

Each has 64 appends in flight, except the library's recorders, which block and have a thread for each connection. A peer
is measured with the connections and the spread over merchants with which it was fastest in a short run before. Nothing
that a peer needs differs from its defaults, and all commit durably.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.load import commits, peer_schemas
from benchmarks.load.limits import InsertLimit
from benchmarks.load.peers import PeerPlan, Store
from benchmarks.load.processes import run_one
from benchmarks.measure.report import Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, compare, open_merchants, p99, per_second, write

CONNECTIONS: Final = (16, 32)
MERCHANTS: Final = (1, 64)
_TRIAL_S: Final = 1.0

_R, _R_ORDER = f"R: INSERT, {CLIENTS} clients", f"R with the README's order, {CLIENTS} clients"
_LEAN, _ORDER = "journal, lean events", "journal, the README's order"


class _Peer(Struct, frozen=True):
    """A store, what it is called, and how many times faster the journal is to be."""

    store: Store
    name: str
    target: Target | None
    is_spread: bool = True
    """Whether it is tried with many merchants too. The recorders know none."""


_PEERS: Final = (
    _Peer("pool", "one transaction per command", None),
    _Peer("recorder", "eventsourcing, application recorder", Target(20), is_spread=False),
    _Peer("aggregates", "eventsourcing, aggregate recorder", None, is_spread=False),
    _Peer("message-db", "message-db, write_message", Target(8)),
    _Peer("emmett", "Emmett, emt_append_to_stream", Target(8)),
)


def report(url: str, seconds: float, rounds: int, node_modules: Path | None = None) -> Report:
    """Measures the journal and its peers in turn. message-db and Emmett need the folder of their npm packages."""
    merchants = open_merchants(url, max(MERCHANTS))
    modules = node_modules if node_modules is not None else Path("node_modules").absolute()
    event = commits.event_bytes("lean")
    missing = {
        "message-db": peer_schemas.install_message_db(url, modules),
        "emmett": peer_schemas.install_emmett(url, modules),
    }
    runs: dict[str, Callable[[], Sample]] = {
        _R: partial(InsertLimit(url, event).run, CLIENTS, seconds),
        _LEAN: partial(write, url, "lean", merchants[:1], seconds),
        _R_ORDER: partial(InsertLimit(url, commits.event_bytes("order")).run, CLIENTS, seconds),
        _ORDER: partial(write, url, "order", merchants[:1], seconds),
    }
    facts = {"event": f"{len(event)} bytes"}
    targets: dict[str, Target | None] = {}
    for peer in _PEERS:
        if (why := missing.get(peer.store)) is not None:
            facts[peer.name] = why
            continue
        plan, facts[peer.name] = _fastest(url, peer, merchants, min(seconds, _TRIAL_S))
        runs[peer.name] = partial(_append, plan, seconds)
        targets[peer.name] = peer.target
    taken = in_turns(rounds, runs)
    ratios = [compare(taken, _LEAN, name, per_second, target) for name, target in targets.items()]
    ratios.append(compare(taken, _ORDER, _R_ORDER, per_second, Target(0.9)))
    ratios.append(compare(taken, _ORDER, _R_ORDER, p99, Target(2, at_most=True)))
    return Report(
        name="journal and peers",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=ratios,
        facts=facts,
        shares={
            "of R": {name: ratio(some, taken[_R], per_second) for name, some in taken.items()},
            "of the journal": {name: ratio(some, taken[_LEAN], per_second) for name, some in taken.items()},
        },
    )


def _fastest(url: str, peer: _Peer, merchants: Sequence[UUID], seconds: float) -> tuple[PeerPlan, str]:
    """Returns the plan with which a peer was fastest, and how it was measured, for people."""
    tried: list[tuple[float, PeerPlan]] = []
    for connections in CONNECTIONS:
        for spread in MERCHANTS if peer.is_spread else MERCHANTS[:1]:
            plan = PeerPlan(
                url=url,
                store=peer.store,
                merchants=list(merchants[:spread]),
                event=commits.event_bytes("lean").decode(),
                connections=connections,
                in_flight=IN_FLIGHT,
                seconds=seconds,
            )
            show_progress(f"trying {peer.name}: {connections} connections")
            tried.append((_append(plan, seconds).per_second, plan))
    best = max(tried, key=lambda one: one[0])[1]
    spread_over = f", {len(best.merchants)} merchants or categories" if peer.is_spread else ""
    return best, f"fastest with {best.connections} connections{spread_over}"


def _append(plan: PeerPlan, seconds: float) -> Sample:
    return run_one("benchmarks.load.peers", replace(plan, seconds=seconds))
