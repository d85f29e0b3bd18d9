"""Samples, and how they are taken in turns and compared.

The rule a stranger would break: a ratio is taken within each round and the median of the rounds is reported. Dividing one
median by another compares two different minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from ledger.settings import CannotRun


class NothingDone(CannotRun):
    """A run without a single success has no figure; the message says what happened instead."""


class Sample(Struct, frozen=True, kw_only=True):
    """What one run of something did. Latencies in milliseconds; `cpu_s` is what the generating process itself used.

    `others` counts what went otherwise than it should; a sample with any is no result. `ended` is what was done from the first
    request to the last answer, before and behind the `seconds` too, where somebody counted that.
    """

    done: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: float = 0.0
    others: dict[str, int] = {}
    ended: int = 0

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


def sample(
    latencies_s: Iterable[float], seconds: float, *, cpu_s: float = 0.0, others: Mapping[str, int] | None = None
) -> Sample:
    """A sample of these latencies, in seconds, that were seen within `seconds`."""
    ordered = sorted(latencies_s)
    at = ordered or [0.0]
    return Sample(
        done=len(ordered),
        seconds=seconds,
        p50_ms=at[len(at) // 2] * 1e3,
        p99_ms=at[len(at) * 99 // 100] * 1e3,
        cpu_s=cpu_s,
        others=dict(others or {}),
    )


def together(samples: Sequence[Sample]) -> Sample:
    """Several processes at once as one sample: their work summed, the latencies of the slowest."""
    others: dict[str, int] = {}
    for one in samples:
        for what, times in one.others.items():
            others[what] = others.get(what, 0) + times
    return Sample(
        done=sum(one.done for one in samples),
        seconds=max(one.seconds for one in samples),
        p50_ms=max(one.p50_ms for one in samples),
        p99_ms=max(one.p99_ms for one in samples),
        cpu_s=sum(one.cpu_s for one in samples),
        others=others,
    )


def in_turns(rounds: int, runs: Mapping[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
    """Every run once per round, one after the other: A B C, A B C, … Raises NothingDone."""
    taken: dict[str, list[Sample]] = {name: [] for name in runs}
    for n in range(rounds):
        for name, run in runs.items():
            say(f"round {n + 1} of {rounds}: {name}")
            taken[name].append(run())
            if not taken[name][-1].done:
                raise NothingDone(f"{name}: nothing was done, but {taken[name][-1].others}")
    return taken


def typical(samples: Sequence[Sample]) -> Sample:
    """The sample with the median throughput, with everything that went wrong in any of them."""
    middle = sorted(samples, key=lambda one: one.per_second)[len(samples) // 2]
    return Sample(
        done=middle.done,
        seconds=middle.seconds,
        p50_ms=median(one.p50_ms for one in samples),
        p99_ms=median(one.p99_ms for one in samples),
        cpu_s=middle.cpu_s,
        others=together(samples).others,
    )


def ratio(of: Sequence[Sample], to: Sequence[Sample], what: Callable[[Sample], float]) -> float:
    """The median over the rounds of how `of` compares `to` its limit in the same round."""
    return median(what(one) / what(limit) for one, limit in zip(of, to, strict=True))


def say(text: str) -> None:
    """Tell a person who watches what is going on; a pipe is told nothing."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
