"""Samples: taken in turns, and compared within their round.

Take a ratio within each round and report the median of the rounds. Dividing one median by another compares two
different minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from ledger.settings import CannotRun


class NothingDone(CannotRun):
    """A run had no success, and so has no figure. The message counts what happened instead."""


class Sample(Struct, frozen=True, kw_only=True):
    """What one run did. Latencies in milliseconds; `cpu_s` is the processor time of the generating process.

    `p999_ms` is the latency that one in a thousand exceeds; 0 if it was not measured. `residual_p99_ms` is the wait that
    is left at one moment in a hundred (`residual_p99`).

    `others` counts unexpected outcomes; a sample with any is not a result. `ended` counts what was done from the first
    request to the last answer, outside the `seconds` too; 0 if that was not counted.
    """

    done: int
    seconds: float
    p50_ms: float
    p99_ms: float
    p999_ms: float = 0.0
    residual_p99_ms: float = 0.0
    cpu_s: float = 0.0
    others: dict[str, int] = {}
    ended: int = 0

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


def sample(
    latencies_s: Iterable[float], seconds: float, *, cpu_s: float = 0.0, others: Mapping[str, int] | None = None
) -> Sample:
    """Returns the sample of these latencies, in seconds, that were seen within `seconds`."""
    ordered = sorted(latencies_s)
    at = ordered or [0.0]
    return Sample(
        done=len(ordered),
        seconds=seconds,
        p50_ms=at[len(at) // 2] * 1e3,
        p99_ms=at[len(at) * 99 // 100] * 1e3,
        p999_ms=at[len(at) * 999 // 1000] * 1e3,
        residual_p99_ms=residual_p99(ordered) * 1e3,
        cpu_s=cpu_s,
        others=dict(others or {}),
    )


def residual_p99(ordered: Sequence[float]) -> float:
    """Returns the wait for an answer that is left, at a random moment, to one in a hundred of the clients that wait, by
    latencies in ascending order; 0 without any.

    Clients that wait for their answer send nothing during a pause. So a pause of 0.1 s in a second is 32 of 9,000
    latencies of 32 clients that wait 3 ms otherwise, and 64 of 1,800 of 64 clients that wait 35 ms: the p99 of the
    first does not show it, that of the second is nothing else. A moment of that second is in the pause with the same
    probability for both. (Residual time, of renewal theory; the distortion is known as coordinated omission.)
    """
    rest, beyond = sum(ordered) / 100, 0.0
    for longer, latency in enumerate(reversed(ordered)):
        if beyond - longer * latency >= rest:  # so much waiting is left beyond this latency
            return (beyond - rest) / longer
        beyond += latency
    return (beyond - rest) / len(ordered) if ordered else 0.0


def together(samples: Sequence[Sample]) -> Sample:
    """Returns the samples of several simultaneous processes as one: their work summed, the latencies of the slowest."""
    others: dict[str, int] = {}
    for one in samples:
        for what, times in one.others.items():
            others[what] = others.get(what, 0) + times
    return Sample(
        done=sum(one.done for one in samples),
        seconds=max(one.seconds for one in samples),
        p50_ms=max(one.p50_ms for one in samples),
        p99_ms=max(one.p99_ms for one in samples),
        p999_ms=max(one.p999_ms for one in samples),
        residual_p99_ms=max(one.residual_p99_ms for one in samples),
        cpu_s=sum(one.cpu_s for one in samples),
        others=others,
        ended=sum(one.ended for one in samples),
    )


def in_turns(rounds: int, runs: Mapping[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
    """Does every run once per round, one after the other: A B C, A B C, … Raises NothingDone."""
    taken: dict[str, list[Sample]] = {name: [] for name in runs}
    for n in range(rounds):
        for name, run in runs.items():
            show_progress(f"round {n + 1} of {rounds}: {name}")
            taken[name].append(run())
            if not taken[name][-1].done:
                raise NothingDone(f"{name}: nothing was done, but {taken[name][-1].others}")
    return taken


def typical(samples: Sequence[Sample]) -> Sample:
    """Returns the sample with the median throughput, with the errors of all of them."""
    middle = sorted(samples, key=lambda one: one.per_second)[len(samples) // 2]
    return Sample(
        done=middle.done,
        seconds=middle.seconds,
        p50_ms=median(one.p50_ms for one in samples),
        p99_ms=median(one.p99_ms for one in samples),
        p999_ms=median(one.p999_ms for one in samples),
        residual_p99_ms=median(one.residual_p99_ms for one in samples),
        cpu_s=middle.cpu_s,
        others=together(samples).others,
    )


def ratio(of: Sequence[Sample], to: Sequence[Sample], what: Callable[[Sample], float]) -> float:
    """Returns the median over the rounds of `of` divided by its limit `to` in the same round."""
    return median(what(one) / what(limit) for one, limit in zip(of, to, strict=True))


def show_progress(text: str) -> None:
    """Prints progress to a terminal, and nothing to a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()
