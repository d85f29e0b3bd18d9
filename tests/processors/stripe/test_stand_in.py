"""The adapter and the fake of Stripe, which were written independently: every call, and calls that fail in every way."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from campaigns.fake_stripe.running import control, fake_stripe
from msgspec import Struct
from tests.processors.stripe.conftest import Shop
from tests.processors.stripe.double import Double

from ledger.domain.orders.processor_outcomes import (
    ActionRequired,
    Approved,
    Captured,
    CaptureRefused,
    Declined,
    ReferenceCancelled,
    ReferenceIssued,
    Refunded,
    RefundPending,
    Released,
    Voided,
)
from ledger.domain.orders.statuses import Advice
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import (
    AuthenticationRequest,
    PayoutRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    ReferenceCancellation,
    ReleaseRequest,
    Request,
)
from ledger.processors.findings import PaymentState, UnrequestedRefund
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    NoticeReceived,
    RefundConfirmed,
    SettlementListed,
    SettlementMatched,
)
from ledger.processors.stripe.account import check
from ledger.processors.stripe.objects import Event
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import Connections, KeyRefused, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ROUNDS = 60
"""How many payments of each of four kinds meet a Stripe that is in trouble."""
FAULTS = [
    "error_before",
    "error_after",
    "reset_before",
    "reset_after",
    "silent_after",
    "late",
    "rate_limited",
    "locked",
    "conflict",
    "garbage",
]

T = TypeVar("T")


class _Named(Struct):
    id: str = ""


def notice_of(shop: Shop, event: Event) -> NoticeReceived:
    """The message about an event, as an account's address keeps it."""
    return NoticeReceived(
        processor="stripe",
        message_id=event.id,
        merchant_id=shop.merchant_id,
        occurred_at=datetime.fromtimestamp(event.created, UTC),
        kind=event.type,
        object_id=msgspec.json.decode(event.data.object, type=_Named).id,
        body_hash="h",
    )


class StandIn:
    """The running fake of Stripe, and the ledger's account there."""

    def __init__(self, url: str, record: Path) -> None:
        self.url = url
        self._record = record
        self.connections = Connections(url)
        self.stripe = StripeProcessor(self.connections, "sk_test_fake")
        self.shop = Shop(self.stripe, Double())

    def control(self, name: str, given: Any = None, method: str = "POST") -> Any:
        return control(self.url, name, given, method)

    def moved(self) -> Counter[tuple[str, str, int]]:
        """What Stripe has carried out, how often: the kind, the key of the call that made the object, the amount."""
        lines = [json.loads(line) for line in self._record.read_text().splitlines() if '"moved"' in line]
        return Counter(
            (line["moved"], line.get("metadata", {}).get("ledger_key", ""), line["amount"]) for line in lines
        )


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    with fake_stripe(tmp_path / "record.jsonl", tmp_path / "log") as running:
        [url] = running.wait_ready()
        stand_in = StandIn(url, tmp_path / "record.jsonl")
        yield stand_in
        assert stand_in.control("state", method="GET")["violations"] == 0


@pytest.fixture
async def shop(stand_in: StandIn) -> Any:
    yield stand_in.shop
    await stand_in.connections.close()


def about(request: Request, **given: Any) -> dict[str, Any]:
    names = ("merchant_id", "idempotency_key", "deadline_at", "order_id", "payment_id")
    return {name: getattr(request, name) for name in names} | given


async def test_cards(stand_in: StandIn, shop: Shop) -> None:
    stripe = stand_in.stripe
    paid = shop.pay("pm_card_visa")
    approved = await stripe.authorize(paid)
    assert isinstance(approved, Approved)
    assert (approved.authorized, approved.captured, await stripe.look_up(shop.question(paid, fence=True))) == (
        10_000,
        10_000,
        approved,
    )
    part = shop.refund(approved.processor_reference)
    refunded = await stripe.refund(part)
    assert isinstance(refunded, Refunded)
    assert await stripe.look_up_refund(shop.question(part)) == refunded
    held, other = (
        await shop.authorized(token="pm_card_visa", capture=False),
        await shop.authorized(token="pm_card_visa", capture=False),
    )
    capture = shop.capture(held, 6_000)
    captured = Captured(amount=Decimal(6_000), processor_reference=held, released=Decimal(4_000))
    assert await stripe.capture(capture) == captured
    assert await stripe.look_up_capture(shop.question(capture)) == captured
    assert isinstance(await stripe.capture(shop.capture(held, 4_000)), CaptureRefused)
    release = ReleaseRequest(**about(shop.void(held)), processor_reference=held)
    assert await stripe.release(release) == Released(amount=Decimal(4_000), processor_reference=held)
    void = shop.void(other)
    assert await stripe.void(void) == Voided(processor_reference=other)
    now = datetime.now(UTC)
    records = [r async for r in stripe.records(now - timedelta(hours=1), now + timedelta(hours=1))]
    assert {(r.idempotency_key, r.captured, r.refunded, r.voided) for r in records} == {
        (paid.idempotency_key, 10_000, 0, False),
        (part.idempotency_key, 0, 4_000, False),
        (capture.idempotency_key, 6_000, 0, False),
        (void.idempotency_key, 0, 0, True),
    }


async def test_declines_and_instalments(stand_in: StandIn, shop: Shop) -> None:
    stripe = stand_in.stripe
    for token, code, advice in (
        ("pm_card_decline_insufficient_funds", "INSUFFICIENT_FUNDS", None),
        ("pm_card_decline_lost_card__do_not_try_again", "CARD_LOST_OR_STOLEN", Advice.DO_NOT_RETRY),
        ("pm_card_decline_do_not_honor__confirm_card_data", "DO_NOT_HONOR", Advice.FIX_DATA),
    ):
        request = shop.pay(token)
        declined = await stripe.authorize(request)
        assert isinstance(declined, Declined)
        assert (declined.code, declined.network_advice) == (code, advice)
        assert await stripe.look_up(shop.question(request, fence=True)) == declined
    amount = Decimal(60_000)
    assert isinstance(await stripe.authorize(shop.pay("pm_card_mx", installments=6, amount=amount)), Approved)
    refused = await stripe.authorize(shop.pay("pm_card_visa", installments=6, amount=amount))
    assert isinstance(refused, Declined)
    assert refused.code == "INSTALLMENTS_NOT_AVAILABLE"


async def test_payers_are_authenticated(stand_in: StandIn, shop: Shop) -> None:
    stripe = stand_in.stripe
    for passed in (True, False):
        request = shop.pay("pm_card_authenticationRequired")
        asked = await stripe.authorize(request)
        assert isinstance(asked, ActionRequired)
        assert await stripe.look_up(shop.question(request)) == asked
        session = asked.authentication_transaction_id
        stand_in.control("authentications", {"payment_intent": session, "passed": passed})
        answer = await stripe.validate_authentication(
            AuthenticationRequest(**about(request), authentication_transaction_id=session, capture=False)
        )
        if passed:
            assert isinstance(answer, Approved)
            assert (answer.captured, answer.eci) == (10_000, "05")
        else:
            assert isinstance(answer, Declined)
            assert answer.code == "AUTHENTICATION_FAILED"
    refused = await stripe.authorize(shop.pay("pm_card_authenticationRequired", authenticate=False))
    assert isinstance(refused, Declined)
    assert refused.code == "AUTHENTICATION_REQUIRED"


async def test_references_and_payouts(stand_in: StandIn, shop: Shop) -> None:
    stripe = stand_in.stripe
    request = shop.reference()
    issued = await stripe.issue_reference(request)
    assert isinstance(issued, ReferenceIssued)
    assert await stripe.look_up_reference(shop.question(request)) == issued
    stand_in.control("transfers", {"clabe": issued.clabe, "amount": 51_500, "reference": "1"})
    reference = issued.processor_reference
    both = PayoutRequest(
        **about(shop.void(reference)), processor_reference=reference, amount=Decimal(51_000), currency="MXN"
    )
    assert isinstance(await stripe.pay_out(both), RefundPending)
    voucher = shop.reference(MethodType.PAYCASH)
    shown = await stripe.issue_reference(voucher)
    assert isinstance(shown, ReferenceIssued)
    assert timedelta(days=2) < shown.expires_at - datetime.now(UTC) < timedelta(days=4)
    assert await stripe.look_up_reference(shop.question(voucher)) == shown
    cancellation = ReferenceCancellation(**about(shop.void("x")), processor_reference=shown.processor_reference)
    assert await stripe.cancel_reference(cancellation) == ReferenceCancelled(
        processor_reference=shown.processor_reference
    )


async def test_events(stand_in: StandIn, shop: Shop) -> None:
    """Every event that Stripe has recorded, asked for twice, means the same: what has happened to the payments."""
    stripe = stand_in.stripe
    transfer, voucher = shop.reference(), shop.reference(MethodType.PAYCASH)
    issued, shown = await stripe.issue_reference(transfer), await stripe.issue_reference(voucher)
    assert isinstance(issued, ReferenceIssued)
    assert isinstance(shown, ReferenceIssued)
    for amount in (20_000, 31_500):
        stand_in.control("transfers", {"clabe": issued.clabe, "amount": amount, "reference": "1"})
    stand_in.control("vouchers", {"payment_intent": shown.processor_reference, "action": "pay"})
    payout = PayoutRequest(
        **about(shop.void("x")), processor_reference=issued.processor_reference, amount=Decimal(51_000), currency="MXN"
    )
    assert isinstance(await stripe.pay_out(payout), RefundPending)
    paid, contested = await shop.authorized(token="pm_card_visa"), await shop.authorized(token="pm_card_visa")
    dispute = {"payment_intent": contested, "reason": "fraudulent", "amount": 10_000}
    name = stand_in.control("disputes", dispute)["id"]
    stand_in.control("dispute_ends", {"dispute": name, "won": False})
    stand_in.control("clock", {"seconds": 5 * 86_400})
    batch = stand_in.control("payouts", {"account": "fake", "mode": "test", "currency": "mxn"})["payout"]["id"]
    stand_in.control("payout_ends", {"payout": batch, "paid": True})
    await asyncio.sleep(2)
    deadline_at = datetime.now(UTC) + timedelta(seconds=60)
    transport = Transport(stand_in.connections, "sk_test_fake")
    told = [event async for event in transport.list("/v1/events", {}, Event, deadline_at=deadline_at)]
    found = dict[tuple[type, str], Any]()
    for event in (*told, *told):
        for message in await stripe.findings(notice_of(shop, event), deadline_at) or ():
            if not isinstance(message, PaymentState | UnrequestedRefund):
                assert found.setdefault((type(message), message.message_id), message) == message
    deposits = sorted(m.amount for m in found.values() if isinstance(m, DepositReceived))
    assert deposits == [20_000, 31_500, 50_000]
    assert {m.payment_id for m in found.values() if isinstance(m, DepositReceived)} == {
        transfer.payment_id,
        voucher.payment_id,
    }
    [confirmed] = [m for m in found.values() if isinstance(m, RefundConfirmed)]
    assert (confirmed.idempotency_key, confirmed.amount) == (payout.idempotency_key, 51_000)
    assert [m.processor_reference for m in found.values() if isinstance(m, DisputeLost)] == [contested]
    for kind in (SettlementListed, SettlementMatched):
        lines = {m.processor_reference for m in found.values() if isinstance(m, kind) and m.batch_id == batch}
        assert {paid, contested} <= lines


async def test_an_account_is_checked(stand_in: StandIn, shop: Shop) -> None:
    deadline_at = datetime.now(UTC) + timedelta(seconds=10)
    facts = await check(Transport(stand_in.connections, "sk_test_fake"), deadline_at)
    assert (facts.country, {offer.type for offer in facts.methods}) == (
        "MX",
        {MethodType.CARD, MethodType.SPEI, MethodType.PAYCASH},
    )
    with pytest.raises(KeyRefused):
        await check(Transport(stand_in.connections, "sk_test_wrong"), deadline_at)


async def test_every_unknown_outcome_is_found(stand_in: StandIn, shop: Shop) -> None:
    """Stripe's record equals what the calls and their look-ups answered, and nothing was carried out twice."""
    stripe = stand_in.stripe
    await shop.authorized(token="pm_card_visa")  # before the trouble begins
    start = stand_in.moved()
    expected = Counter[tuple[str, str, int]]()
    trouble = {"probability": 0.35, "seed": 7, "seconds": 1.0, "faults": FAULTS}
    stand_in.control("trouble", trouble)

    async def payment(kind: str) -> None:
        request = shop.pay("pm_card_visa", deadline_s=2, capture=kind == "refund")
        answer = await settled(
            lambda: stripe.authorize(request), lambda: stripe.look_up(shop.question(request, fence=True)), once=True
        )
        if not isinstance(answer, Approved):
            return
        key, reference = request.idempotency_key, answer.processor_reference
        expected["CAPTURED" if kind == "refund" else "AUTHORIZED", key, 10_000] += 1
        if kind == "capture":
            capture = shop.capture(reference, 6_000, deadline_s=2)
            done = await settled(
                lambda: stripe.capture(_again(capture)), lambda: stripe.look_up_capture(shop.question(capture))
            )
            assert isinstance(done, Captured)
            expected["CAPTURED", key, 6_000] += 1
            expected["RELEASED", key, 4_000] += 1
        elif kind == "void":
            void = shop.void(reference, deadline_s=2)
            done = await settled(lambda: stripe.void(_again(void)), lambda: stripe.look_up_void(shop.question(void)))
            assert isinstance(done, Voided)
            expected["RELEASED", key, 10_000] += 1
        elif kind == "refund":
            refund = shop.refund(reference, 4_000, deadline_s=2)
            done = await settled(
                lambda: stripe.refund(_again(refund)), lambda: stripe.look_up_refund(shop.question(refund)), tries=12
            )
            if isinstance(done, Refunded):
                expected["REFUNDED", refund.idempotency_key, 4_000] += 1

    for _ in range(ROUNDS // 10):
        await asyncio.gather(*(payment(kind) for kind in ("hold", "capture", "void", "refund") for _ in range(10)))
    stand_in.control("trouble", {**trouble, "probability": 0})
    await asyncio.sleep(2)  # what is late arrives
    assert stand_in.moved() - start == expected
    assert max(expected.values()) == 1


async def settled(
    call: Callable[[], Awaitable[T]], look_up: Callable[[], Awaitable[T | None]], *, once: bool = False, tries: int = 60
) -> T | None:
    """Returns the outcome of a call as the recovery finds it. With `once` it is never sent again."""
    for _ in range(tries):
        try:
            return await call()
        except ProcessorUnavailable:
            if once:
                return None
        except ProcessorTimedOut:
            is_known, found = await _look_up(look_up, tries)
            if (is_known and once) or found is not None:
                return found
    return None


async def _look_up(look_up: Callable[[], Awaitable[T | None]], tries: int) -> tuple[bool, T | None]:
    for _ in range(tries):
        try:
            return True, await look_up()
        except (ProcessorTimedOut, ProcessorUnavailable):
            continue
    return False, None


def _again(request: Any) -> Any:
    """The same request with a deadline of its own, as the recovery sends it."""
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return type(request)(**fields | {"deadline_at": datetime.now(UTC) + timedelta(seconds=2)})
