"""`python -m campaigns chaos [NAME…] [--rounds N] [--times N] [--seed S]`: kills parts of a service under load and checks every answer.

It exits 1 on any violation, and on a fault that hit nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence

from campaigns.chaos.cut_commits import CUT_COMMITS
from campaigns.chaos.freeze import FREEZE
from campaigns.chaos.full_disk import FULL_DATA, FULL_LOG
from campaigns.chaos.full_pool import FULL_POOL
from campaigns.chaos.held import HELD_HEAD, HELD_TABLE, NO_CONNECTIONS
from campaigns.chaos.hostile import HOSTILE_CLIENTS
from campaigns.chaos.kill_parts import KILL_PARTS
from campaigns.chaos.kill_postgres import KILL_POSTGRES
from campaigns.chaos.kill_service import KILL_ALL, KILL_SERVICE
from campaigns.chaos.restarts import RESTARTS, restarts
from campaigns.chaos.restarts import TIMES as RESTART_TIMES
from campaigns.chaos.rounds import Campaign, Result, run, show
from campaigns.chaos.stop_service import STOP_SERVICE
from campaigns.chaos.stops import STOPS, stops
from campaigns.chaos.stops import TIMES as STOP_TIMES

CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        KILL_SERVICE, KILL_POSTGRES, KILL_ALL, KILL_PARTS, FREEZE, STOPS, STOP_SERVICE, RESTARTS, HELD_HEAD, HELD_TABLE,
        NO_CONNECTIONS, FULL_POOL, CUT_COMMITS, FULL_DATA, FULL_LOG, HOSTILE_CLIENTS,
    )
}  # fmt: skip

_COLUMNS = (
    "fault", "rounds", "operations", "acknowledged", "lost", "doubled", "unknown", "of them landed", "503",
    "recovered", "back p50", "back max",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Runs the campaigns that are named, or all, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns chaos", description=__doc__)
    names = "; ".join(f"{campaign.name}: {campaign.about}" for campaign in CAMPAIGNS.values())
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument(
        "--rounds", type=int, default=None, help="strikes of each fault (10, where one takes a minute 1)"
    )
    times = f"stops in a round of {STOPS.name} ({STOP_TIMES}), restarts in one of {RESTARTS.name} ({RESTART_TIMES})"
    parser.add_argument("--times", type=int, default=None, help=times)
    parser.add_argument("--clients", type=int, default=24, help="clients that send requests all the time (24)")
    parser.add_argument(
        "--seed", type=int, default=None, help="which requests, and when it strikes; drawn where absent"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - CAMPAIGNS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(CAMPAIGNS)}")
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    results = []
    for name in options.names or CAMPAIGNS:
        campaign = _campaign(name, options.times)
        show(f"{name}: {campaign.about} (seed {seed})")
        rounds = campaign.rounds if options.rounds is None else options.rounds
        result = asyncio.run(run(campaign, rounds=rounds, seed=seed, clients=options.clients))
        for violation in result.violations:
            show(f"  VIOLATION {violation.rule}: {violation.what}")
        results.append(result)
    show(table(results))
    return 1 if any(result.violations for result in results) else 0


def _campaign(name: str, times: int | None) -> Campaign:
    if times is None:
        return CAMPAIGNS[name]
    makers = {STOPS.name: stops, RESTARTS.name: restarts}
    return makers[name](times) if name in makers else CAMPAIGNS[name]


def table(results: Sequence[Result]) -> str:
    """Returns the figures of all campaigns, a line each."""
    rows = [_COLUMNS, *(_row(result) for result in results)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(result: Result) -> tuple[str, ...]:
    figures = result.figures
    counts = (
        len(result.rounds), figures.operations, figures.acknowledged, figures.lost, figures.doubled, figures.unknown,
        figures.landed, figures.unavailable, figures.recovered,
    )  # fmt: skip
    seconds = (result.back_p50_s, result.back_max_s)
    return (result.name, *(f"{n:,}" for n in counts), *("never" if s is None else f"{s:.2f} s" for s in seconds))
