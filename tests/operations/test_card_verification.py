"""Cards that are saved without a payment: what a crash, a race or a lost answer leaves of them, in the log and the vault.

A legal end: the number is in the vault exactly if the card is saved or may still be, and no answer saves it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any
from uuid import UUID

import pytest
from tests.operations.conftest import APPROVED, DECLINED, SILENT, Open, an_order, by_card, register
from tests.operations.test_saved_cards import OTHER, by_saved, cards

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.payment_methods.terms import VerificationEnd
from ledger.domain.rejections import ChargeRefused, CustomerNotFound, PaymentMethodNotFound, RequestInProgress
from ledger.domain.streams import PAYMENT_METHODS
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import CallTimeouts, Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.payment_methods.change import delete_payment_method
from ledger.operations.payment_methods.complete import look_up_verification
from ledger.operations.payment_methods.sweep import sweep_cards
from ledger.operations.payment_methods.verify import CardResult, verify_and_save
from ledger.operations.pipeline.calls import LookUp
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.processors.contract import AuthorizationRequest, ProcessorTimedOut, ProcessorUnavailable
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio

KEY = IdempotencyKey("save-1", "fingerprint")
NOW, LATER = LookUp(late_s=-3600.0, timeout_s=5.0, fence=True), LookUp(late_s=3600.0, timeout_s=5.0, fence=True)
"""Ways to look up: as if a processor could no longer carry out the call, and as if it could."""


class Died(BaseException):
    """The end of a process, as far as its database can see."""


@pytest.fixture
async def ana(ledger: Ledger, merchant: Actor) -> UUID:
    """The customer of every test."""
    return (await create_order(ledger, merchant, an_order("first"))).customer.customer_id


async def save(
    ledger: Ledger, merchant: Actor, number: str = APPROVED, key: IdempotencyKey | None = None
) -> CardResult:
    return await verify_and_save(ledger, merchant, "ana", by_card(number), is_default=False, key=key)


async def methods_of(ledger: Ledger, merchant: Actor, customer_id: UUID) -> SavedMethods:
    methods, _ = await ledger.journal.load(merchant.merchant_id, PAYMENT_METHODS, stream_of(customer_id))
    return methods or SavedMethods(customer_id=customer_id)


def around_authorize(ledger: Ledger, act: Callable[[AuthorizationRequest, Callable[..., Any]], Awaitable[Any]]) -> None:
    """Lets `act` answer in place of the processor, given the request and the processor's own method."""
    processor: Any = ledger.processors.sandbox
    authorize = processor.authorize
    processor.authorize = lambda request: act(request, authorize)


def dies_at(ledger: Ledger, point: str) -> None:
    """Lets the process of this ledger end at a point of its next verification."""
    commit, commits = ledger.journal.commit, 0

    async def deadly_commit(*arguments: Any, **named: Any) -> int:
        nonlocal commits
        commits += 1
        if (commits, point) in {(1, "before-intent"), (2, "after-answer")}:
            raise Died
        position = await commit(*arguments, **named)
        if (commits, point) in {(1, "after-intent"), (2, "after-outcome")}:
            raise Died
        return position

    async def deadly_call(request: AuthorizationRequest, authorize: Any) -> Any:
        answer = await authorize(request)
        if point == "during-call":
            raise Died
        return answer

    ledger.journal.commit = deadly_commit  # type: ignore[method-assign]
    around_authorize(ledger, deadly_call)


@pytest.mark.parametrize("point", ["before-intent", "after-intent", "during-call", "after-answer", "after-outcome"])
async def test_wherever_a_process_ends_the_card_is_saved_or_is_not(
    ledger: Ledger, merchant: Actor, ana: UUID, open_another: Open, database_url: str, point: str
) -> None:
    mortal = await open_another()
    dies_at(mortal, point)
    with pytest.raises(Died):
        await save(mortal, merchant, key=KEY)
    before = await methods_of(ledger, merchant, ana)
    await sweep_cards(ledger, age_s=0.0)
    assert len(cards(database_url)) == (0 if point == "before-intent" else 1), "the number of a pending card stays"
    if point in {"after-intent", "during-call", "after-answer"}:
        with pytest.raises(RequestInProgress):
            await save(ledger, merchant, key=KEY)
    for verification in before.verifications:
        method_id, stream_id = verification.payment_method_id, stream_of(ana)
        if point == "after-intent":
            assert await look_up_verification(ledger, merchant.merchant_id, stream_id, method_id, LATER) is False
        assert await look_up_verification(ledger, merchant.merchant_id, stream_id, method_id, NOW)
    if point == "after-intent":
        with pytest.raises(ChargeRefused) as refused:
            await save(ledger, merchant, key=KEY)
        assert refused.value.facts["declineCode"] == "PROCESSOR_TIMEOUT"
        assert cards(database_url) == []
    else:
        saved = await save(ledger, merchant, key=KEY)
        assert (saved.created, saved.repeated) == (True, point != "before-intent")
        assert [method.payment_method_id for method in saved.methods.live] == [saved.payment_method_id]
        assert cards(database_url) == [saved.payment_method_id]
    again = await save(ledger, merchant)
    await sweep_cards(ledger, age_s=0.0)
    methods = await methods_of(ledger, merchant, ana)
    assert [method.payment_method_id for method in methods.live] == cards(database_url) == [again.payment_method_id]


async def test_a_timer_takes_not_found_as_final_when_the_setting_says(
    ledger: Ledger, merchant: Actor, ana: UUID, open_another: Open
) -> None:
    mortal = await open_another()
    assert mortal.call_timeouts.not_found_late_s == 40.0, "60 seconds less the processor's 20"
    mortal.call_timeouts = CallTimeouts(processor_timeout_s=-100.0)
    dies_at(mortal, "after-intent")
    with pytest.raises(Died):
        await save(mortal, merchant)
    (pending,) = (await methods_of(ledger, merchant, ana)).verifications
    about = (merchant.merchant_id, stream_of(ana), pending.payment_method_id)
    for late_s, is_final in ((3600.0, False), (40.0, True)):
        ledger.call_timeouts = CallTimeouts(not_found_late_s=late_s)
        assert await look_up_verification(ledger, *about) is is_final


async def test_a_call_that_was_settled_as_never_arrived_verifies_nothing_when_it_arrives(
    ledger: Ledger, merchant: Actor, ana: UUID, database_url: str
) -> None:
    sent: list[AuthorizationRequest] = []

    async def delayed(request: AuthorizationRequest, _: Any) -> Any:
        sent.append(request)
        raise ProcessorTimedOut("on its way")

    authorize = ledger.processors.sandbox.authorize  # type: ignore[union-attr]
    around_authorize(ledger, delayed)
    pending = await save(ledger, merchant)
    method_id = pending.payment_method_id
    assert (sent[0].amount, sent[0].capture, sent[0].payment_method_id) == (0, False, method_id)
    assert await look_up_verification(ledger, merchant.merchant_id, stream_of(ana), method_id, NOW)
    with pytest.raises(ProcessorUnavailable):
        await authorize(sent[0])
    methods = await methods_of(ledger, merchant, ana)
    assert (methods.live, methods.verifications[0].ended) == ([], VerificationEnd.NOT_FOUND)
    assert cards(database_url) == []


async def test_a_silent_processor_is_asked_until_it_answers(
    ledger: Ledger, merchant: Actor, ana: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = await save(ledger, merchant, SILENT)
    assert pending.methods.live == []
    about = (merchant.merchant_id, stream_of(ana), pending.payment_method_id)

    async def away(*_: Any, **__: Any) -> Any:
        raise ProcessorUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(ledger.processors.sandbox, "look_up", away)
        assert await look_up_verification(ledger, *about, NOW) is False
    assert await look_up_verification(ledger, *about, LATER)
    assert await look_up_verification(ledger, *about, LATER), "a timer that fires twice does nothing the second time"
    assert cards(database_url) == [pending.payment_method_id]
    paid = await create_order(
        ledger, merchant, an_order("2", by_saved(pending.payment_method_id), virtual_terminal=True)
    )
    assert paid.order.payments[0].started.method.method_id == pending.payment_method_id


async def test_a_card_that_is_deleted_erased_or_bought_with_during_the_call(
    ledger: Ledger, merchant: Actor, ana: UUID, database_url: str
) -> None:
    async def deleted(request: AuthorizationRequest, authorize: Any) -> Any:
        answer = await authorize(request)
        if request.amount == 0 and request.payment_method_id is not None:
            await delete_payment_method(ledger, merchant, ana, request.payment_method_id)
        return answer

    processor: Any = ledger.processors.sandbox
    own = processor.authorize
    around_authorize(ledger, deleted)
    with pytest.raises(PaymentMethodNotFound):
        await save(ledger, merchant)
    assert cards(database_url) == []

    async def bought(request: AuthorizationRequest, authorize: Any) -> Any:
        if request.amount == 0:
            order = await create_order(ledger, merchant, an_order("bought", by_card(DECLINED, persist=True)))
            assert order.order.status is OrderStatus.FAILED
        return await authorize(request)

    processor.authorize = own
    around_authorize(ledger, bought)
    with pytest.raises(ChargeRefused):
        await save(ledger, merchant, DECLINED)
    methods = await methods_of(ledger, merchant, ana)
    [kept] = methods.live
    assert cards(database_url) == [kept.payment_method_id], "the payment has saved it"

    async def erased(request: AuthorizationRequest, authorize: Any) -> Any:
        answer = await authorize(request)
        async with Erasures(database_url) as erasures:
            await delete_customer(ledger, merchant, "ana", erasures.orders_of)
        return answer

    processor.authorize = own
    around_authorize(ledger, erased)
    with pytest.raises((PaymentMethodNotFound, CustomerNotFound)):
        await save(ledger, merchant, OTHER)
    assert cards(database_url) == []
    assert (await methods_of(ledger, merchant, ana)).live == []


async def test_a_customer_without_cards_who_is_erased_while_a_first_one_is_verified(
    ledger: Ledger, merchant: Actor, ana: UUID, database_url: str
) -> None:
    """The erasure has found no cards, and the verification the customer, when both commit."""
    load, began = ledger.journal.load, asyncio.Event()

    async def load_and_wait(merchant_id: UUID, stream: Any, stream_id: UUID) -> Any:
        found = await load(merchant_id, stream, stream_id)
        if stream is PAYMENT_METHODS and not began.is_set():
            began.set()
            await save(ledger, merchant)
        return found

    ledger.journal = copy(ledger.journal)
    ledger.journal.load = load_and_wait  # type: ignore[method-assign]
    async with Erasures(database_url) as erasures:
        await delete_customer(ledger, merchant, "ana", erasures.orders_of)
    assert (await methods_of(ledger, merchant, ana)).live == []
    assert cards(database_url) == []


async def test_requests_for_one_card_at_once_save_it_once(
    ledger: Ledger, merchant: Actor, ana: UUID, open_another: Open, database_url: str
) -> None:
    other = await open_another()
    work = [save(each, merchant) for each in (ledger, other, ledger, other)]
    buys = create_order(other, merchant, an_order("buy", by_card(persist=True)))
    results = await asyncio.gather(*work, buys, return_exceptions=True)
    assert all(isinstance(each, RequestInProgress) or not isinstance(each, BaseException) for each in results), results
    await sweep_cards(ledger, age_s=0.0)
    methods = await methods_of(ledger, merchant, ana)
    [method] = methods.live
    assert cards(database_url) == [method.payment_method_id]
    assert all(each.ended is VerificationEnd.VERIFIED for each in methods.verifications)


async def test_another_merchants_customer_gets_no_card(ledger: Ledger, merchant: Actor, ana: UUID) -> None:
    foreign = await register(ledger)
    with pytest.raises(CustomerNotFound):
        await verify_and_save(ledger, foreign, str(ana), by_card(), is_default=False)
