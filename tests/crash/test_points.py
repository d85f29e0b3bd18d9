"""Wherever a process is killed around a payment, the payment ends in the one right state, and no payer is charged
twice.

`make test` runs a few of the crashes, `make test-long` all others.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from campaigns.chaos import rules
from campaigns.chaos.installation import installed
from msgspec import Struct
from tests.crash.scenario import AMOUNT, CASES, SHORT, Case, CrashResult, CrashScenario

from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are told of their parent's end by the kernel"
)

# A processor that takes long enough for a process to be killed meanwhile, also on a slow machine.
_SETTINGS = {
    "LEDGER_SANDBOX_DELAY_MS": "300",
    "LEDGER_PROCESSOR_TIMEOUT_S": "2.0",
    "LEDGER_NOT_FOUND_FINAL_S": "3.0",
}


def parameters(cases: Sequence[Case]) -> Any:
    """Returns cases as parameters of a test. Those that do not run at every change are marked."""
    return [pytest.param(case, marks=() if case in SHORT else pytest.mark.long, id=case.name) for case in cases]


@pytest.fixture(scope="module")
def result(
    request: pytest.FixtureRequest,
    postgres_url: str,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CrashResult]:
    """Yields the result of all cases that the tests of this run need."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    selected = {test.callspec.params.get("case") for test in tests if test.path == request.path}
    cases = [case for case in CASES if case in selected]
    log: Path = tmp_path_factory.mktemp("crash") / "log"
    with installed(postgres_url, template_database, _SETTINGS) as installation:
        yield asyncio.run(CrashScenario(installation, log, cases or SHORT).run())


class Expected(Struct, frozen=True):
    """The order's status when the recovery has ended, and how many payments the order has when it is paid."""

    settled: str | None
    payments: int


def expected(case: Case) -> Expected:
    """Returns what a case must come to, point by point."""
    status, payments = ("PENDING" if case.do == "charge" else None), 0
    for point in case.points:
        if point == "before-intent":
            continue  # nothing was committed or sent
        payments += 1
        status = "FAILED" if point == "after-intent" else "COMPLETED"  # the processor never received it, or executed it
    if status is None and case.second is None:  # a client repeated the request meanwhile, which made the payment
        status, payments = "COMPLETED", 1
    return Expected(status, payments if status == "COMPLETED" else payments + 1)


each_case = pytest.mark.parametrize("case", parameters(CASES))


@each_case
def test_the_process_is_killed_at_its_point_and_does_not_answer(result: CrashResult, case: Case) -> None:
    assert result.seen[case].ends == ["reset"] * len(case.points)
    assert [result.exits[f"{case.name} {attempt}"] for attempt in range(len(case.points))] == [-9] * len(case.points)


@each_case
def test_the_recovery_leads_to_the_one_right_state(result: CrashResult, case: Case) -> None:
    settled = result.seen[case].settled
    assert settled.order_status == expected(case).settled
    assert settled.status == (404 if expected(case).settled is None else 200)


@each_case
def test_a_repeated_request_gets_the_same_order_and_pays_once(result: CrashResult, case: Case) -> None:
    seen = result.seen[case]
    known = {reply.order_id for reply in (seen.meanwhile, seen.settled, seen.repeated, seen.paid, seen.again) if reply}
    assert len(known - {None}) == 1
    assert (seen.again.status, seen.again.replayed, seen.again.order_status) == (200, True, "COMPLETED")
    order = result.evidence.orders[seen.again.order_id]  # type: ignore[index]
    assert order.status is OrderStatus.COMPLETED
    assert len(order.payments) == expected(case).payments
    assert [payment.status for payment in order.payments].count(PaymentStatus.CAPTURED) == 1
    keys = [payment.requested.idempotency_key for payment in order.payments if payment.requested is not None]
    assert sum(result.evidence.book[key].captured for key in keys if key in result.evidence.book) == AMOUNT


@each_case
def test_a_repeated_request_is_answered_with_its_outcome(result: CrashResult, case: Case) -> None:
    seen = result.seen[case]
    was_announced = case.points[-1] != "before-intent"
    if case.do == "charge":
        assert (seen.repeated.status, seen.repeated.replayed) == (200, was_announced)
        return
    succeeded = expected(case).settled == "COMPLETED"
    if case.do == "keyed" and was_announced:  # the same key gives the same answer; another one tries again
        assert (seen.repeated.status, seen.repeated.replayed) == (201 if succeeded else 422, True)
        return
    assert (seen.repeated.status, seen.repeated.replayed) == ((200, True) if succeeded else (201, False))


@pytest.mark.parametrize("case", parameters([case for case in CASES if case.second is None]))
def test_a_request_repeated_before_the_recovery_starts_no_second_payment(result: CrashResult, case: Case) -> None:
    meanwhile = result.seen[case].meanwhile
    assert meanwhile is not None
    if case.name in {"create/before-intent", "keyed/before-intent"}:
        assert (meanwhile.status, meanwhile.payments) == (201, 1)
    else:
        assert (meanwhile.status, meanwhile.replayed) == (200, True)
        assert meanwhile.payments == (case.first != "before-intent")


def test_a_recovery_that_is_killed_leaves_its_work_to_the_next(result: CrashResult) -> None:
    assert {name: status for name, status in result.exits.items() if name.startswith("recovery")} == {
        "recovery/before-outcome": -9,
        "recovery/after-outcome": -9,
    }


def test_log_read_models_and_processor_agree_in_the_end(result: CrashResult) -> None:
    evidence = result.evidence
    assert not rules.everything(evidence)
