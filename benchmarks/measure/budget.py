"""What operations may cost, beside what an echo and an INSERT cost in the same run.

Costs are processor time, so a busy machine changes them far less than it changes a rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from benchmarks.measure.report import Ratio, Target
from benchmarks.measure.resources import Costs

CREATE, CARD, READ = "create", "create with card", "read by id"

MEMORY: Final = Target(150, at_most=True)
_IN_ECHOES: Final[Mapping[str, float]] = {CREATE: 3.8, CARD: 8, READ: 1.3}
_WORKER_US: Final[Mapping[str, float]] = {CREATE: 20, CARD: 60}
_WAL_KB: Final[Mapping[str, float]] = {CREATE: 5.5, CARD: 12.5}
_IN_INSERTS: Final = 0.7


def cost_ratios(costs: Costs, resident: float, *, has_targets: bool) -> list[Ratio]:
    """Returns the costs of creates and reads as ratios, with their targets or without; `resident` in MB."""
    found = [
        (f"{name}, API process", "an echo", costs.means(name)["API"] / costs.echo_us, most)
        for name, most in _IN_ECHOES.items()
    ]
    parts = costs.means(CREATE)
    beside = (parts["worker"] + parts["Postgres"]) / costs.insert_us
    found.append((f"{CREATE}, worker and Postgres", "an INSERT, pgbench and Postgres", beside, _IN_INSERTS))
    found += [(f"{name}, worker", "1 µs", costs.means(name)["worker"], most) for name, most in _WORKER_US.items()]
    found += [(f"{name}, WAL", "1 KB", costs.wal_kb(name), most) for name, most in _WAL_KB.items()]
    found.append(("API process, resident", "1 MB", resident, MEMORY.bound))
    return [
        Ratio(of=of, to=to, value=value, target=Target(most, at_most=True) if has_targets else None)
        for of, to, value, most in found
    ]
