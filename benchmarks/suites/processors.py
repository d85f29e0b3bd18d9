"""Card payments at a merchant's account: what the adapter of Stripe costs, and what slow answers cost reads.

Both are measured at a server that repeats the answers of the fake of Stripe. The adapter is measured in turn with a
bare client that sends the same requests.

Reads come at a fixed rate that leaves the cores idle part of the time, alone and beside card payments. Payments take
processor time from reads, whether they wait or not. So there are three ways: as many payments a second as the cores
carry, answered at once; the same, with answers so late that 500 are in flight; and 500 in flight whose answers take
300 ms, which are more payments a second than two cores carry.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Final
from urllib.request import urlopen
from uuid import UUID

from msgspec.structs import replace

from benchmarks.load import order_body
from benchmarks.load.authorizations import AuthorizationPlan, By
from benchmarks.load.processes import child, run_one, run_together
from benchmarks.load.requests import ORDER, UNIQUE, LoadPlan, Step
from benchmarks.load.stripe_answers import KEY, PAUSE_PATH, TOKEN
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import Service, connect_stripe, order_ids, service
from benchmarks.suites.journal import IN_FLIGHT, p99, per_second
from ledger.settings import Settings, api_processes

PAYMENTS: Final = 500
ANSWERS_AFTER_S: Final = 0.3
READS_PER_SECOND: Final = 200
PAYMENTS_PER_SECOND: Final = 50
CALLS: Final = 3
"""The calls of a card payment: what its token is, the creation of an intent, and its confirmation."""

_ACCOUNT: Final = "stripe"
_READERS: Final = 32
_SPARE: Final = 16
"""More connections than payments in flight, for those that come while others are late."""
_WARM_UP_S: Final = 2.0
_OF_CLIENT: Final = Target(0.8)
_KEPT: Final = Target(1.2, at_most=True)

_AUTHORIZATIONS: Final = {False: "create and confirm", True: "token, create and confirm"}
_ALONE: Final = "reads alone"
_AT_ONCE: Final = f"reads beside {PAYMENTS_PER_SECOND} payments a second, answered at once"
_LATE: Final = f"reads beside {PAYMENTS_PER_SECOND} payments a second, {PAYMENTS} in flight"
_MANY: Final = f"reads beside {PAYMENTS} payments in flight, answers of {ANSWERS_AFTER_S * 1_000:g} ms"


class Answering:
    """The server that answers as Stripe does."""

    def __init__(self, url: str) -> None:
        self.url = url

    def answer_after(self, seconds: float) -> None:
        """Sets how long an answer takes from now on."""
        with urlopen(f"{self.url}{PAUSE_PATH}{seconds}"):  # noqa: S310 - the benchmark's own server
            pass


@contextmanager
def answering() -> Iterator[Answering]:
    """Yields the server while its process runs."""
    with child("benchmarks.load.stripe_answers") as process:
        assert process.stdout is not None
        yield Answering(process.stdout.readline().decode().strip())


def reports(server_url: str, settings: Settings, seconds: float, rounds: int) -> list[Report]:
    """Measures the adapter, then reads."""
    with answering() as stripe:
        adapter = adapter_report(stripe, seconds, rounds)
        with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
            return [adapter, reads_report(stripe, url, settings, Path(folder), seconds, rounds)]


def adapter_report(stripe: Answering, seconds: float, rounds: int) -> Report:
    """Measures authorisations by the adapter and by a bare client, in turn, with and without their token's read."""
    ways: list[tuple[bool, By]] = list(product(_AUTHORIZATIONS, ("client", "adapter")))
    runs = {_by(*way): partial(_authorize, stripe, *way, seconds) for way in ways}
    taken = in_turns(rounds, runs)
    of_client = [
        Ratio(
            of=_by(reads_token, "adapter"),
            to="client",
            value=ratio(taken[_by(reads_token, "adapter")], taken[_by(reads_token, "client")], per_second),
            target=_OF_CLIENT,
        )
        for reads_token in _AUTHORIZATIONS
    ]
    return Report(
        name=f"authorisations at Stripe, {IN_FLIGHT} in flight",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=of_client,
        facts={
            f"{name}, processor time of one": f"{median(one.cpu_s / one.ended for one in some) * 1e6:.0f} µs"
            for name, some in taken.items()
        },
    )


def _by(reads_token: bool, by: By) -> str:
    return f"{_AUTHORIZATIONS[reads_token]}, {by}"


def _authorize(stripe: Answering, reads_token: bool, by: By, seconds: float) -> Sample:
    plan = AuthorizationPlan(url=stripe.url, by=by, in_flight=IN_FLIGHT, seconds=seconds, reads_token=reads_token)
    return run_one("benchmarks.load.authorizations", plan)


def reads_report(stripe: Answering, url: str, settings: Settings, folder: Path, seconds: float, rounds: int) -> Report:
    """Measures reads by id alone, and beside card payments of the same merchant at Stripe."""
    with service(url, settings, folder, api_processes(settings), stripe_url=stripe.url) as under_test:
        connect_stripe(url, folder, under_test.merchant_id, _ACCOUNT, KEY, stripe.url)
        show_progress("warming up")
        under_test.create(1, IN_FLIGHT)
        beside = Beside(under_test, stripe, order_ids(url, under_test.merchant_id), seconds)
        taken = in_turns(rounds, beside.runs())
    return Report(
        name=f"reads, {READS_PER_SECOND} a second",
        samples={name: typical(some) for name, some in (taken | beside.payments).items()},
        ratios=[
            Ratio(of=f"{of}, p99", to=to, value=ratio(taken[of], taken[to], p99), target=_KEPT)
            for of, to in ((_LATE, _AT_ONCE), (_LATE, _ALONE), (_MANY, _ALONE))
        ],
        facts={f"in flight beside {name}": f"{_in_flight(some):.0f}" for name, some in beside.payments.items()},
    )


class Beside:
    """Reads of orders, and card payments beside them. `payments` are the samples of these, by name."""

    def __init__(self, under_test: Service, stripe: Answering, ids: Sequence[UUID], seconds: float) -> None:
        self._service = under_test
        self._stripe = stripe
        self._ids = ids
        self._seconds = seconds
        self.payments: dict[str, list[Sample]] = {}

    def runs(self) -> Mapping[str, Callable[[], Sample]]:
        """Returns the runs, each of which measures reads."""
        rate, late_s = PAYMENTS_PER_SECOND, PAYMENTS / (PAYMENTS_PER_SECOND * CALLS)
        return {
            _ALONE: lambda: run_one("benchmarks.load.requests", self._reads(_WARM_UP_S)),
            _AT_ONCE: partial(self._beside, "payments, answered at once", 0.0, _SPARE, rate),
            _LATE: partial(self._beside, f"payments, answers of {late_s:.1f} s", late_s, PAYMENTS + _SPARE, rate),
            _MANY: partial(self._beside, f"payments, answers of {ANSWERS_AFTER_S:g} s", ANSWERS_AFTER_S, PAYMENTS, 0),
        }

    def _reads(self, warm_up_s: float) -> LoadPlan:
        plan = self._service.plan([Step(path=f"{self._service.orders}/{ORDER}")], self._seconds, _READERS, self._ids, 0)
        return replace(plan, per_second=READS_PER_SECOND, warm_up_s=warm_up_s)

    def _beside(self, name: str, answers_after_s: float, in_flight: int, rate: float) -> Sample:
        """Measures reads and payments together, once as many payments are in flight as there are going to be."""
        self._stripe.answer_after(answers_after_s)
        warm_up_s = _WARM_UP_S + CALLS * answers_after_s
        pay = Step(
            name="pay",
            path=self._service.orders,
            body=order_body.by_token(f"pedido-{UNIQUE}", _ACCOUNT, TOKEN),
            expect=201,
            values={"payment.status": "CAPTURED"},
        )
        plan = self._service.plan([pay], self._seconds, in_flight)
        payments = replace(plan, per_second=rate, warm_up_s=warm_up_s)
        reads, paid = run_together("benchmarks.load.requests", [self._reads(warm_up_s), payments])
        self._stripe.answer_after(0)
        self.payments.setdefault(name, []).append(paid)
        return replace(reads, others=reads.others | paid.others)


def _in_flight(payments: Sequence[Sample]) -> float:
    """Returns how many payments were in flight (Little's law)."""
    return median(one.per_second * one.p50_ms / 1_000 for one in payments)
