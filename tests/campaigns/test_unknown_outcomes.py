"""A short campaign, and a comparison that finds every kind of difference."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.chaos.running import environ
from campaigns.fake_processor.modes import Line, Mode
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.stand_ins.environment import CannotStart
from campaigns.unknown_outcomes.campaign import Plan, pay, run
from campaigns.unknown_outcomes.comparison import compare
from campaigns.unknown_outcomes.disturbances import KINDS, Disturbances, can_move_the_clock
from campaigns.unknown_outcomes.stripe import FAULTS, StandIn, run_at_stripe
from campaigns.unknown_outcomes.stripe_lists import Lists, differences, made_twice
from tests.operations.conftest import (
    an_order,
    by_card,
    database_url,
    ledger,
    merchant,
    module_ledger,
    module_url,
)

from ledger.domain.orders.events import AuthorizationRequested, RefundRequested, VoidRequested
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.terms import CaptureMethod
from ledger.operations.context.inputs import Actor, CancelInput, RefundInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.create import create_order
from ledger.operations.orders.refund import refund_order

__all__ = ["database_url", "ledger", "merchant", "module_ledger", "module_url"]

pytestmark = pytest.mark.anyio


@pytest.mark.long
async def test_the_processor_and_the_ledger_agree_on_every_amount(short_dir: Path):
    home = short_dir / "unknown"
    home.mkdir()
    result = await run(Plan(payments=120, seed=3, trouble=0.4, clients=12, kill_every_s=2.5), home)
    assert list(result.verdict.violations) == []
    assert result.verdict.totals.unknown > 0
    assert result.kills > 0
    assert result.verdict.totals.refunded > 0
    assert result.verdict.totals.voided > 0


@pytest.mark.long
async def test_the_processor_and_the_ledger_agree_after_processes_were_disturbed(short_dir: Path):
    """Processes are stopped or cut off for longer than the recovery waits, or their clock is moved, and then go on."""
    home = short_dir / "disturbed"
    home.mkdir()
    kinds = KINDS if can_move_the_clock() else tuple(kind for kind in KINDS if kind != "clock")
    disturbances = Disturbances(every_s=0.3, max_s=10.0, clock_max_s=15, kinds=kinds)
    result = await run(Plan(payments=100, seed=5, clients=24, kill_every_s=None, disturbances=disturbances), home)
    assert list(result.verdict.violations) == []
    assert result.disturbances


async def test_the_comparison_finds_every_difference(ledger: Ledger, merchant: Actor, database_url: str):
    """In the file of a processor that did what the ledger asked for: a payment, a refund and a void."""
    await create_order(ledger, merchant, an_order("paid", by_card()))
    await create_order(ledger, merchant, an_order("refunded", by_card()))
    await refund_order(ledger, merchant, "refunded", RefundInput(amount=Decimal(4_000)))
    await create_order(ledger, merchant, an_order("voided", by_card(), capture_method=CaptureMethod.MANUAL))
    await cancel_order(ledger, merchant, "voided", CancelInput())
    evidence = await gather(database_url)
    lines = [line for each in evidence for recorded in each.log for line in written(each.merchant_id, recorded.event)]
    assert [line.kind for line in lines if line.applied] == ["AUTHORIZE", "AUTHORIZE", "REFUND", "AUTHORIZE", "VOID"]
    every_difference_is_found(lines, evidence)


def written(merchant_id: UUID, event: Any) -> list[Line]:
    """Returns what a processor without a fault writes about the call that an event announces."""
    match event:
        case AuthorizationRequested(capture=capture, amount=amount):
            kind, moved = "AUTHORIZE", {"authorized": amount, "captured": amount if capture else Decimal(0)}
        case RefundRequested(amount=amount):
            kind, moved = "REFUND", {"refunded": amount}
        case VoidRequested():
            kind, moved = "VOID", {}
        case _:
            return []
    call: dict[str, Any] = {"kind": kind, "merchant_id": merchant_id, "key": event.idempotency_key}
    return [Line(**call, mode=Mode.OK), Line(**call, applied=True, **moved)]


@pytest.mark.long
async def test_the_comparison_finds_every_difference_in_the_file_of_a_processor(short_dir: Path):
    home = short_dir / "compared"
    home.mkdir()
    record = home / "processor.jsonl"
    with (
        fake_processor(record, home / "log", environ({})) as fake,
        FakedService(fake.wait_port(), workers=1) as service,
    ):
        service.start()
        await pay(
            service, service.merchant("Compared"), Plan(payments=20, clients=2, seed=1, trouble=0, kill_every_s=None)
        )
        with service.database() as url:
            evidence = await gather(url)
    every_difference_is_found(read(record), evidence)


def every_difference_is_found(lines: Sequence[Line], evidence: Sequence[MerchantEvidence]) -> None:
    """Expects no violation, and the right one after each change of the processor's file."""
    assert list(compare(lines, evidence).violations) == []
    paid = next(line for line in lines if line.captured)
    others = [line for line in lines if line is not paid]
    refund = next(line for line in lines if line.refunded)
    without_refund = [line for line in lines if line is not refund]
    void = next(line for line in lines if line.kind == "VOID" and line.applied)
    without_void = [line for line in lines if line is not void]
    dearer = msgspec.structs.replace(paid, captured=paid.captured + 1)
    unannounced = Line(kind="AUTHORIZE", merchant_id=paid.merchant_id, key="unannounced", mode=Mode.OK)
    for wrong, violation in (
        ([*lines, paid], "took effect 2 times"),
        ([*others, dearer], "the ledger has"),
        (others, "the processor captured 0"),
        (without_refund, "the processor refunded 0"),
        (without_void, "voided nothing"),
        ([*lines, unannounced], "is in no order"),
        ([*lines, msgspec.structs.replace(paid, mode=Mode.OK, captured=Decimal(0), applied=False)], "was sent 2 times"),
    ):
        violations = compare(wrong, evidence).violations
        assert any(violation in found for found in violations), (violation, violations)


@pytest.mark.long
@pytest.mark.parametrize("stand_in", StandIn)
async def test_stripes_lists_and_the_ledger_agree_on_every_amount(short_dir: Path, stand_in: StandIn):
    home = short_dir / f"stripe-{stand_in}"
    home.mkdir()
    try:
        result = await run_at_stripe(Plan(payments=100, seed=3, clients=12, kill_every_s=5), stand_in, home)
    except CannotStart as reason:
        pytest.skip(str(reason))
    assert list(result.verdict.violations) == []
    totals = result.verdict.totals
    assert set(totals.calls) == set(FAULTS)
    assert totals.payments >= 100
    assert min(result.kills, totals.unknown, totals.captured, totals.refunded, totals.voided) > 0


def made(merchant_id: UUID, key: str, **given: Any) -> dict[str, Any]:
    return {"id": key, "metadata": {"ledger_merchant": str(merchant_id), "ledger_key": key}, **given}


def test_the_comparison_with_stripes_lists_finds_every_difference():
    merchant_id = uuid4()
    intents = [made(merchant_id, key) for key in ("one", "two", "two")]
    refunds = [made(merchant_id, "back"), made(merchant_id, "back")]
    charges = [{"payment_intent": "pi", "status": "succeeded"}] * 2 + [{"payment_intent": "pi", "status": "failed"}]
    twice = list(made_twice(Lists(intents=intents, charges=charges, refunds=refunds)))
    assert [text.rpartition(" made ")[2] for text in twice] == ["2 intents", "2 refunds", "pi was charged 2 times"]
    paid, held = {"status": "succeeded", "amount_received": 100}, {"status": "requires_capture", "amount_received": 0}
    for status, captured, refunded, intent, given_back, wrong in (
        (PaymentStatus.CAPTURED, 100, 0, paid, 0, 0),
        (PaymentStatus.AUTHORIZED, 0, 0, held, 0, 0),
        (PaymentStatus.FAILED, 0, 0, None, 0, 0),
        (PaymentStatus.CANCELLED, 0, 0, held | {"status": "canceled"}, 0, 0),
        (PaymentStatus.CAPTURED, 99, 0, paid, 0, 1),
        (PaymentStatus.CAPTURED, 100, 0, paid, 1, 1),
        (PaymentStatus.AUTHORIZED, 0, 0, held | {"status": "canceled"}, 0, 1),
        (PaymentStatus.FAILED, 0, 0, held, 0, 2),
        (PaymentStatus.FAILED, 0, 0, paid, 0, 2),
        (PaymentStatus.CANCELLED, 0, 0, held, 0, 2),
    ):
        ours: Any = SimpleNamespace(
            payment=SimpleNamespace(status=status, captured=Decimal(captured), refunded=Decimal(refunded))
        )
        assert len(list(differences(ours, intent, given_back))) == wrong, (status, intent)
