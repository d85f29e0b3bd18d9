"""Operations end to end, without HTTP: intent, call, outcome; claims and versions decide every race."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from eventsourcing.persistence import InfrastructureFactory, StoredEvent
from tests.operations.conftest import DECLINED, SILENT, Open, an_order, by_card
from uuid_utils.compat import uuid7

from ledger.domain.orders.events import PaymentAuthorized
from ledger.domain.orders.processor_outcomes import ActionRequired, AuthorizationOutcome, Declined
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.rejections import CustomerNotFound, IdempotencyMismatch, OrderNotFound, OrderNotPayable
from ledger.domain.streams import CUSTOMERS
from ledger.journal.append import Change, VersionConflict
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.pipeline.execute import ATTEMPTS
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors.contract import AuthorizationRequest, ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio


def topics(database_url: str, merchant: Actor) -> list[str]:
    """Returns the topics of the merchant's log after its registration."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select topic from event where merchant_id = %s and stream_id <> merchant_id order by position",
            (merchant.merchant_id,),
        ).fetchall()
    return [row[0].removesuffix(".v1") for row in rows]


async def test_a_pending_order_creates_its_customer_in_the_same_commit(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1"))
    assert receipt.order.status is OrderStatus.PENDING
    assert (receipt.created, receipt.payment_id) == (True, None)
    assert receipt.customer.email == "ana@example.com"
    assert topics(database_url, merchant) == ["order-created", "customer-created"]


async def test_a_card_order_is_written_before_and_after_the_call(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card()))
    assert receipt.order.status is OrderStatus.COMPLETED
    assert receipt.order.amount_paid == 10_000
    assert topics(database_url, merchant) == [
        "order-created",
        "payment-started",
        "authorization-requested",
        "customer-created",
        "payment-authorized",
        "payment-captured",
    ]


async def test_every_event_names_who_requested_it_and_its_cause(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("1", by_card()))
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select command_id::text, convert_from(context, 'UTF8')::json from event "
            "where merchant_id = %s and stream_id <> merchant_id order by position",
            (merchant.merchant_id,),
        ).fetchall()
    assert {context["actor"] for _, context in rows} == {str(merchant.key_id)}
    assert {context["request"] for _, context in rows} == {"req-1"}
    assert [context.get("causation") for _, context in rows] == [None] * 4 + [rows[0][0]] * 2


async def test_a_decline_fails_the_order_and_the_same_external_id_pays_it(ledger: Ledger, merchant: Actor) -> None:
    declined = await create_order(ledger, merchant, an_order("1", by_card(DECLINED)))
    assert declined.order.status is OrderStatus.FAILED
    paid = await create_order(ledger, merchant, an_order("1", by_card()))
    assert paid.created
    assert paid.order.terms.order_id == declined.order.terms.order_id
    assert [payment.status for payment in paid.order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]


async def test_a_payment_that_succeeded_is_not_made_again(ledger: Ledger, merchant: Actor) -> None:
    first = await create_order(ledger, merchant, an_order("1", by_card()))
    again = await create_order(ledger, merchant, an_order("1", by_card()))
    assert (again.created, again.replayed) == (False, True)
    assert again.order == first.order
    assert again.payment_id == first.payment_id


async def test_the_same_external_id_for_other_money_is_refused(ledger: Ledger, merchant: Actor) -> None:
    await create_order(ledger, merchant, an_order("1"))
    with pytest.raises(IdempotencyMismatch):
        await create_order(ledger, merchant, an_order("1", amount=Decimal(9_999)))


async def test_a_pending_order_is_charged_by_either_id(ledger: Ledger, merchant: Actor) -> None:
    created = await create_order(ledger, merchant, an_order("a/1"))
    declined = await charge_order(ledger, merchant, "a/1", by_card(DECLINED))
    assert declined.order.status is OrderStatus.FAILED
    paid = await charge_order(ledger, merchant, str(created.order.terms.order_id), by_card())
    assert paid.order.status is OrderStatus.COMPLETED
    with pytest.raises(OrderNotPayable):
        await charge_order(ledger, merchant, "a/1", by_card())


async def test_an_order_of_another_merchant_is_not_found(ledger: Ledger, merchant: Actor, open_another: Open) -> None:
    from tests.operations.conftest import register

    created = await create_order(ledger, merchant, an_order("1"))
    stranger = await register(ledger)
    for reference in ("1", str(created.order.terms.order_id), str(uuid7())):
        with pytest.raises(OrderNotFound):
            await charge_order(ledger, stranger, reference, by_card())


async def test_a_customer_is_not_an_order(ledger: Ledger, merchant: Actor) -> None:
    created = await create_order(ledger, merchant, an_order("1"))
    with pytest.raises(OrderNotFound):
        await charge_order(ledger, merchant, str(created.customer.customer_id), by_card())


async def test_a_stream_of_the_eventsourcing_library_is_neither_an_order_nor_a_customer(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    environment = {
        "PERSISTENCE_MODULE": "ledger.recorder",
        "LEDGER_DATABASE_URL": database_url,
        "LEDGER_MERCHANT_ID": str(merchant.merchant_id),
    }
    stream = uuid7()
    factory = InfrastructureFactory.construct(environment)
    stored = [StoredEvent(stream, 1, "something.v1", b"no JSON")]
    await asyncio.to_thread(factory.application_recorder().insert_events, stored)
    factory.close()
    with pytest.raises(OrderNotFound):
        await charge_order(ledger, merchant, str(stream), by_card())
    with pytest.raises(CustomerNotFound):
        await UnitOfWork(ledger, merchant).find(CUSTOMERS, str(stream))


async def test_a_time_out_is_unknown_and_not_declined(ledger: Ledger, merchant: Actor) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    assert receipt.order.status is OrderStatus.PROCESSING
    assert receipt.order.payments[0].entries[-1].status == "UNKNOWN"
    again = await create_order(ledger, merchant, an_order("1", by_card()))
    assert again.replayed
    assert len(again.order.payments) == 1


async def test_an_answer_that_cannot_be_read_is_unknown(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def garbled(_: AuthorizationRequest) -> AuthorizationOutcome:
        raise ValueError

    monkeypatch.setattr(ledger.processors.sandbox, "authorize", garbled)
    receipt = await create_order(ledger, merchant, an_order("1", by_card()))
    assert receipt.order.status is OrderStatus.PROCESSING
    assert receipt.order.payments[0].entries[-1].status == "UNKNOWN"


async def test_a_challenge_that_the_request_did_not_allow_is_unknown(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def challenges(_: AuthorizationRequest) -> AuthorizationOutcome:
        return ActionRequired(
            next_action=NextAction.CHALLENGE, authentication_transaction_id="txn-1", reference_id="ref-1"
        )

    monkeypatch.setattr(ledger.processors.sandbox, "authorize", challenges)
    receipt = await create_order(ledger, merchant, an_order("1", by_card(virtual_terminal=True)))
    assert receipt.order.status is OrderStatus.PROCESSING
    assert receipt.order.payments[0].entries[-1].status == "UNKNOWN"


async def test_a_card_number_in_a_processors_message_is_not_stored(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def declines(_: AuthorizationRequest) -> AuthorizationOutcome:
        return Declined(code="05", message="Card 4242-4242-4242-4242 declined")

    monkeypatch.setattr(ledger.processors.sandbox, "authorize", declines)
    receipt = await create_order(ledger, merchant, an_order("1", by_card()))
    failure = receipt.order.payments[0].failure
    assert failure is not None
    assert failure.message == "Card ****-****-****-**** declined"


async def test_an_outcome_is_recorded_after_more_conflicts_than_a_request_may_meet(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, conflicts = ledger.journal.commit, iter(range(ATTEMPTS + 1))

    async def overtaken(merchant_id: UUID, command_id: UUID, changes: Sequence[Change], *rest: Any) -> int:
        if isinstance(changes[0].events[0], PaymentAuthorized) and next(conflicts, None) is not None:
            raise VersionConflict(changes[0].stream_id)
        return await commit(merchant_id, command_id, changes, *rest)

    monkeypatch.setattr(ledger.journal, "commit", overtaken)
    receipt = await create_order(ledger, merchant, an_order("1", by_card()))
    assert receipt.order.status is OrderStatus.COMPLETED
    assert next(conflicts, None) is None


async def test_an_outage_fails_the_payment_and_a_retry_pays(ledger: Ledger, merchant: Actor) -> None:
    assert isinstance(ledger.processors.sandbox, SandboxProcessor)
    await ledger.processors.sandbox.set_mode(merchant.merchant_id, Mode.DOWN, 1)
    with pytest.raises(ProcessorUnavailable):
        await create_order(ledger, merchant, an_order("1", by_card()))
    retried = await create_order(ledger, merchant, an_order("1", by_card()))
    assert retried.order.status is OrderStatus.COMPLETED
    assert [payment.status for payment in retried.order.payments] == [PaymentStatus.FAILED, PaymentStatus.CAPTURED]


async def test_a_known_customer_is_reused_and_brought_up_to_date(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    first = await create_order(ledger, merchant, an_order("1"))
    other = await open_another()
    changed = CustomerInput(external_id="ana", email="ana.lopez@example.com")
    second = await create_order(other, merchant, an_order("2", customer=changed))
    assert second.customer.customer_id == first.customer.customer_id
    assert (second.customer.first_name, second.customer.email) == ("Ana", "ana.lopez@example.com")
    third = await create_order(ledger, merchant, an_order("3", customer=CustomerInput(external_id="ana")))
    assert third.customer == second.customer
    by_id = CustomerInput(id=str(first.customer.customer_id))
    fourth = await create_order(ledger, merchant, an_order("4", customer=by_id))
    assert fourth.customer == second.customer
    assert topics(database_url, merchant).count("customer-created") == 1
    with pytest.raises(CustomerNotFound):
        await create_order(ledger, merchant, an_order("5", customer=CustomerInput(id="nobody")))


async def test_one_new_customer_of_many_orders_at_once_is_made_once(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    other = await open_another()
    receipts = await asyncio.gather(
        *[
            create_order(at, merchant, an_order(f"{n}-{side}"))
            for n in range(20)
            for side, at in enumerate((ledger, other))
        ]
    )
    assert len({receipt.customer.customer_id for receipt in receipts}) == 1
    assert all(receipt.created for receipt in receipts)


async def test_many_identical_requests_make_one_order_and_one_charge(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    other = await open_another()
    for n in range(5):
        receipts = await asyncio.gather(
            *[create_order(at, merchant, an_order(f"same-{n}", by_card())) for _ in range(10) for at in (ledger, other)]
        )
        assert sum(receipt.created for receipt in receipts) == 1
        assert len({(receipt.order.terms.order_id, receipt.payment_id) for receipt in receipts}) == 1
        assert {receipt.order.status for receipt in receipts} == {OrderStatus.COMPLETED}
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from sandbox_charge").fetchone() == (5,)


async def test_a_caller_who_leaves_does_not_stop_the_payment(ledger: Ledger, merchant: Actor) -> None:
    request = asyncio.create_task(create_order(ledger, merchant, an_order("1", by_card())))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await ledger.drain()
    again = await create_order(ledger, merchant, an_order("1", by_card()))
    assert again.replayed
    assert again.order.status is OrderStatus.COMPLETED


async def test_order_numbers_do_not_repeat_between_processes(
    ledger: Ledger, merchant: Actor, open_another: Open
) -> None:
    other = await open_another()
    receipts = await asyncio.gather(
        *[
            create_order(at, merchant, an_order(f"{n}-{side}"))
            for n in range(30)
            for side, at in enumerate((ledger, other))
        ]
    )
    assert len({receipt.order.terms.order_number for receipt in receipts}) == 60
