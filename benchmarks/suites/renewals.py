"""How fast the worker bills subscriptions that are due at one moment, and what that costs other merchants' orders.

The worker is the one that `ledger serve` starts. A renewal is measured from its due time to the commit of its paid
invoice: the invoice, the charge of the saved card by a payment order, and their outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Final
from uuid import UUID

import psycopg

from benchmarks.load import commits
from benchmarks.load.limits import InsertLimit
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs, child_of, peak_mb, resident_mb
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, show_progress, typical
from benchmarks.suites.http import Service, saved_cards, service, uncaptured
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, per_second
from benchmarks.suites.subscribers import subscribe
from ledger.settings import Settings, api_processes

RENEWALS: Final = 1_000
RENEWAL_DAY: Final = 10_000
_NO_PACE: Final = 10_000
_KEPT: Final = Target(0.8)
_CAPTURES_IN_FLIGHT: Final = 4
_TURN_SPARE_S: Final = 8.0
_CAPTURE_DELAY_S: Final = 5.0
"""The default of the merchant's setting: a capture is due so long after its authorisation."""
_PREPARING_S: Final = 0.5

_R, _SAVED, _RENEWALS = f"R: INSERT, {CLIENTS} clients", "create with saved card", "renewals"
_ORDERS, _JOBS = "orders of another merchant", "captures of another merchant by the worker"
_ALONE, _MEANWHILE, _AFTER = "before", "during the renewals", "after"

# From an authorisation to its capture, which is a job of the worker.
_WAITS: Final = """
select extract(epoch from min(c.recorded_at) - min(a.recorded_at))::float8
  from event a join event c using (merchant_id, stream_id)
 where merchant_id = %s and a.topic = 'payment-authorized.v1' and c.topic = 'payment-captured.v1' and a.recorded_at >= %s
 group by stream_id
"""


def report(
    url: str, settings: Settings, folder: Path, seconds: float, rounds: int, subscriptions: int = RENEWALS
) -> Report:
    """Measures renewals without their pace, in turn with R and with the creates over HTTP that pay by saved cards."""
    limit = InsertLimit(url, commits.event_bytes("order"))
    with service(url, settings, folder, api_processes(settings), _NO_PACE) as under_test:
        under_test.create(1, IN_FLIGHT, "saving")
        cards = saved_cards(url, under_test.merchant_id)
        costs = Costs(under_test.process.pid, url)

        def renew() -> Sample:
            due = subscribe(url, under_test, folder, subscriptions)
            show_progress("waiting until the subscriptions are due")
            due.wait_until_due()
            return costs.of(_RENEWALS, due.bill)()

        taken = in_turns(
            rounds,
            {
                _R: partial(limit.run, CLIENTS, seconds),
                _SAVED: costs.of(_SAVED, partial(under_test.create_with_saved_card, cards, seconds, IN_FLIGHT)),
                _RENEWALS: renew,
            },
        )
        worker = child_of(under_test.process.pid, "worker")
        memory = f"{resident_mb(worker):.0f} MB, at most {peak_mb(worker):.0f} MB"
    return Report(
        name=f"renewals, {subscriptions:,} subscriptions due at one moment",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=_RENEWALS, to=to, value=ratio(taken[_RENEWALS], taken[to], per_second)) for to in (_R, _SAVED)
        ],
        facts={"worker, resident": memory, **costs.facts()},
    )


def day_report(
    url: str, settings: Settings, folder: Path, seconds: float, rounds: int, subscriptions: int = RENEWAL_DAY
) -> Report:
    """Measures another merchant's orders and jobs before, while and after one merchant's subscriptions are billed."""
    with service(url, settings, folder, api_processes(settings), settings.renewals_per_second) as under_test:
        under_test.create(1, IN_FLIGHT)
        under_test.authenticate(_PREPARING_S, _CAPTURES_IN_FLIGHT)
        due = subscribe(url, under_test, folder, subscriptions, spare_s=rounds * (2 * seconds + _TURN_SPARE_S))
        turns = {
            _ORDERS: partial(under_test.create, seconds, IN_FLIGHT),
            _JOBS: partial(_captures, url, under_test, seconds),
        }
        costs = Costs(under_test.process.pid, url)
        taken = {_ALONE: in_turns(rounds, turns)}
        late = datetime.now(UTC) >= due.due_at
        due.wait_until_due()
        taken[_MEANWHILE] = in_turns(rounds, {name: costs.of(name, run) for name, run in turns.items()})
        left = due.unpaid()
        show_progress("waiting until all subscriptions are billed")
        renewals = due.bill()
        taken[_AFTER] = in_turns(rounds, turns)
        worker = child_of(under_test.process.pid, "worker")
        memory = f"{resident_mb(worker):.0f} MB, at most {peak_mb(worker):.0f} MB"
    samples = {f"{name}, {when}": typical(some) for when, each in taken.items() for name, some in each.items()}
    return Report(
        name=f"renewal day, {subscriptions:,} subscriptions of one merchant due at one moment",
        samples={**samples, _RENEWALS: renewals},
        ratios=[
            Ratio(
                of=f"{_ORDERS}, {_MEANWHILE}",
                to="before and after",
                value=_kept(taken, _ORDERS, per_second),
                target=_KEPT,
            ),
            Ratio(of=f"{_JOBS}, p50, {_MEANWHILE}", to="before and after", value=_kept(taken, _JOBS, _p50)),
        ],
        facts={
            "renewals left at the end of the samples": f"{left:,} (0 makes the ratios too good)",
            "samples before the renewals": "late: the renewals had begun" if late else "complete",
            "worker, resident": memory,
            **costs.facts(),
        },
    )


def _captures(url: str, under_test: Service, seconds: float) -> Sample:
    """Has orders authorised whose capture is a job, and returns how long the captures take once they are due."""
    began = datetime.now(UTC)
    under_test.authenticate(seconds, _CAPTURES_IN_FLIGHT)
    left = uncaptured(url, under_test.merchant_id)
    others = {"not captured": left} if left else {}
    return sample(_waits(url, under_test.merchant_id, began), seconds, others=others)


def _waits(url: str, merchant_id: UUID, since: datetime) -> list[float]:
    """Returns how many seconds each capture took from its due time to its commit."""
    with psycopg.connect(url) as connection:
        return [wait - _CAPTURE_DELAY_S for (wait,) in connection.execute(_WAITS, [merchant_id, since])]


def _kept(taken: Mapping[str, Mapping[str, Sequence[Sample]]], name: str, what: Callable[[Sample], float]) -> float:
    """Returns the median over the rounds of what was measured meanwhile, as a share of that before and after."""
    rounds = zip(*[taken[when][name] for when in (_ALONE, _MEANWHILE, _AFTER)], strict=True)
    return float(median(what(during) / fmean((what(before), what(after))) for before, during, after in rounds))


def _p50(one: Sample) -> float:
    return one.p50_ms
