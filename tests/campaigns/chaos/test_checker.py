"""The checker is checked: a sound ledger passes, and every kind of harm is found by the rule for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from campaigns.chaos.checker import judge
from campaigns.chaos.evidence import gather
from campaigns.chaos.rules import the_book_agrees
from campaigns.chaos.witness import Asked, RecordedAnswer, Witness
from msgspec import structs
from tests.operations.conftest import DECLINED, SILENT, an_order, by_card, register
from tests.sealing import MASTER_KEY

from ledger.domain.orders.statuses import PaymentStatus
from ledger.operations.context.inputs import Actor, CustomerFields
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.customers.change import change_customer
from ledger.operations.orders.create import charge_order, create_order
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[Ledger]:
    settings = Settings(
        database_url=database_url,
        database_vault_url=database_url,
        master_key=MASTER_KEY,
        sandbox_deadline_s=0.05,
        processor_timeout_s=20,
    )
    async with open_ledger(settings) as ledger:
        yield ledger


class RecordedOrders:
    """A paid order, a pending one and a declined one, and a client with an answer about each."""

    def __init__(self, url: str, record: Path, merchant: Actor, answer: dict[str, OrderResult]) -> None:
        self.url = url
        self.record = record
        self.merchant = merchant
        self.answer = answer

    async def broken_rules(self, window_s: float = 60) -> set[str]:
        return {violation.rule for violation in (await judge(self.url, self.record, window_s)).violations}

    def harm(self, statement: str) -> None:
        """Does something to the database that the service never does."""
        order = self.answer["paid"].order.terms.order_id
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(statement.format(order=order, other=uuid4(), m=self.merchant.merchant_id))
            assert done.rowcount == 1, "the harm was not done"


def asked(merchant: Actor, name: str) -> Asked:
    return Asked(do="create", merchant_id=merchant.merchant_id, external_id=name, amount=10_000)


def answer(receipt: OrderResult) -> RecordedAnswer:
    payment = receipt.order.payments[-1] if receipt.order.payments else None
    return RecordedAnswer(
        status=201,
        order_id=receipt.order.terms.order_id,
        order_status=receipt.order.status,
        amount_paid=int(receipt.order.amount_paid),
        payment_ids=tuple(each.payment_id for each in receipt.order.payments),
        payment_id=None if payment is None else payment.payment_id,
        payment_status=None if payment is None else payment.status,
    )


@pytest.fixture
async def recorded(ledger: Ledger, database_url: str, tmp_path: Path) -> RecordedOrders:
    merchant = await register(ledger)
    receipts = {
        "paid": await create_order(ledger, merchant, an_order("paid", by_card())),
        "pending": await create_order(ledger, merchant, an_order("pending")),
        "declined": await create_order(ledger, merchant, an_order("declined", by_card(DECLINED))),
    }
    witness = Witness(tmp_path / "record")
    for name, receipt in receipts.items():
        await witness.ended(await witness.invoke(asked(merchant, name)), "ok", answer(receipt))
    witness.close()
    return RecordedOrders(database_url, tmp_path / "record", merchant, receipts)


async def test_a_sound_ledger_passes(recorded: RecordedOrders) -> None:
    verdict = await judge(recorded.url, recorded.record, 60)
    assert not verdict.violations
    assert (verdict.figures.acknowledged, verdict.figures.orders) == (3, 3)


# A charge that the processor granted for a payment that the service recorded as never sent.
_BOOKED = """
insert into sandbox_charge
select merchant_id, '{key}', booked_at, amount, currency, capture, card_bin, card_last4, authorized, captured, reference
  from sandbox_charge where captured > 0 limit 1
"""
VIEWS, GAPS = "views follow from the log", "the log has no gap"
INVARIANTS, TWICE = "orders keep their invariants", "nothing happened twice"
BOOK, OPEN, LOST = "the book agrees", "nothing is left open", "acknowledged and lost"


@pytest.mark.parametrize(
    ("rules", "statement"),
    [
        ({VIEWS, INVARIANTS}, "update payment_order set status = 'PENDING' where order_id = '{order}'"),
        ({VIEWS}, "update payment_order set updated_at = updated_at + interval '1 ms' where order_id = '{order}'"),
        ({VIEWS}, "delete from payment_order where order_id = '{order}'"),
        ({VIEWS}, "update tally set n = n + 1 where status = 'COMPLETED'"),
        ({VIEWS}, "update customer set email = 'b@example.com'"),
        (
            {VIEWS, INVARIANTS},
            """update payment_order
               set head = convert_to(replace(convert_from(head, 'UTF8'), '"amountPending":0', '"amountPending":1'), 'UTF8')
               where order_id = '{order}'""",
        ),
        ({GAPS, LOST}, "delete from event where stream_id = '{order}' and topic = 'payment-captured.v1'"),
        ({GAPS}, "update merchant_head set position = position + 1 where merchant_id = '{m}'"),
        ({TWICE}, "delete from claim where key = 'paid'"),
        ({TWICE}, "insert into claim values ('{m}', 1, 'nobody', '{other}')"),
        ({BOOK}, "update sandbox_charge set captured = 1 where captured > 0"),
        ({BOOK}, "delete from sandbox_charge where captured > 0"),
        (
            {BOOK},
            """insert into sandbox_charge
               select merchant_id, 'again', booked_at, amount, currency, capture, card_bin, card_last4, authorized, captured,
                 reference from sandbox_charge where captured > 0""",
        ),
    ],
)
async def test_harm_is_found(recorded: RecordedOrders, rules: set[str], statement: str) -> None:
    recorded.harm(statement)
    assert rules <= await recorded.broken_rules()


async def test_a_decline_ends_a_payment_that_is_being_cancelled(recorded: RecordedOrders) -> None:
    (evidence,) = await gather(recorded.url)
    declined = next(order for order in evidence.orders.values() if order.payments and order.payments[0].failure)
    for requested in (True, False):
        cancelled = {"status": PaymentStatus.CANCELLED, "failure": None, "cancellation_requested": requested}
        payment = structs.replace(declined.payments[0], **cancelled)
        order = structs.replace(declined, payments=(payment,))
        evidence.__dict__["orders"] = {**evidence.orders, order.terms.order_id: order}
        assert bool(list(the_book_agrees(evidence))) is not requested


async def test_an_acknowledgement_without_an_order_is_a_loss(recorded: RecordedOrders) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    nobody = structs.replace(answer(recorded.answer["paid"]), order_id=uuid4(), replayed=True)
    await witness.ended(await witness.invoke(asked(recorded.merchant, "lost")), "ok", nobody)
    assert await recorded.broken_rules() == {LOST}


async def test_an_answer_that_was_never_true_is_a_loss(recorded: RecordedOrders) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    too_much = structs.replace(answer(recorded.answer["declined"]), amount_paid=10_000, replayed=True)
    await witness.ended(await witness.invoke(asked(recorded.merchant, "declined")), "ok", too_much)
    assert await recorded.broken_rules() == {LOST}


async def test_an_order_that_is_not_found_after_it_was_acknowledged_is_a_loss(recorded: RecordedOrders) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    read = Asked(do="read", merchant_id=recorded.merchant.merchant_id, external_id="paid")
    await witness.ended(await witness.invoke(read), "fail", RecordedAnswer(status=404, code="ORDER_NOT_FOUND"))
    assert await recorded.broken_rules() == {LOST}


async def test_one_payment_that_two_requests_were_answered_to_have_made_is_doubled(recorded: RecordedOrders) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    await witness.ended(await witness.invoke(asked(recorded.merchant, "paid")), "ok", answer(recorded.answer["paid"]))
    assert await recorded.broken_rules() == {"doubled"}


@pytest.mark.parametrize(("refunds", "rules"), [(1, {LOST}), (2, {LOST, "doubled"})])
async def test_a_refund_that_is_not_there_is_a_loss_and_one_with_two_ids_is_doubled(
    recorded: RecordedOrders, refunds: int, rules: set[str]
) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    merchant_id = recorded.merchant.merchant_id
    refund = Asked(do="refund", merchant_id=merchant_id, external_id="paid", refunded=100, refund="parte")
    for _ in range(refunds):
        refunded = structs.replace(answer(recorded.answer["paid"]), refund_id=uuid4())
        await witness.ended(await witness.invoke(refund), "ok", refunded)
    assert await recorded.broken_rules() == rules


async def test_a_repeated_key_with_another_answer_is_a_loss(recorded: RecordedOrders) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    keyed = structs.replace(asked(recorded.merchant, "paid"), key="k")
    for status in (201, 200):
        again = structs.replace(answer(recorded.answer["paid"]), status=status, replayed=True)
        await witness.ended(await witness.invoke(keyed), "ok", again)
    assert await recorded.broken_rules() == {LOST}


@pytest.mark.parametrize(("harm", "rules"), [(None, set[str]()), (_BOOKED, {TWICE, BOOK})])
async def test_a_payment_that_was_never_sent_frees_its_external_id(
    recorded: RecordedOrders, ledger: Ledger, harm: str | None, rules: set[str]
):
    """Unless the processor received it: then one external id was charged twice."""
    bank, named = ledger.processors.sandbox, by_card(external_id="rent")
    assert isinstance(bank, SandboxProcessor)
    await bank.set_mode(recorded.merchant.merchant_id, Mode.DOWN, times=1)
    with pytest.raises(ProcessorUnavailable):
        await charge_order(ledger, recorded.merchant, "pending", named)
    paid = await charge_order(ledger, recorded.merchant, "pending", named)
    assert [p.started.external_id for p in paid.order.payments] == ["rent", "rent"]
    if harm is not None:
        recorded.harm(harm.format(key=paid.order.payments[0].payment_id, m=recorded.merchant.merchant_id))
    assert await recorded.broken_rules() == rules


@pytest.mark.parametrize(("status", "code"), [(500, "INTERNAL_ERROR"), (400, "VALIDATION_ERROR"), (401, None)])
async def test_an_answer_that_nothing_explains_is_a_finding(
    recorded: RecordedOrders, status: int, code: str | None
) -> None:
    witness = Witness(recorded.record)
    witness._n = 100
    outcome = "info" if status == 500 else "fail"
    await witness.ended(
        await witness.invoke(asked(recorded.merchant, "paid")), outcome, RecordedAnswer(status=status, code=code)
    )
    assert await recorded.broken_rules() == {"unexplained answers"}


async def test_a_call_that_stays_open_is_found_after_its_window(recorded: RecordedOrders, ledger: Ledger) -> None:
    await create_order(ledger, recorded.merchant, an_order("open", by_card(SILENT)))
    assert await recorded.broken_rules(window_s=60) == set()
    assert await recorded.broken_rules(window_s=-60) == {OPEN}


async def test_what_is_wrong_with_saved_cards_and_customers_is_found(
    ledger: Ledger, database_url: str, tmp_path: Path
) -> None:
    merchant, number = await register(ledger), "4111111111111111"
    made = await create_order(ledger, merchant, an_order("saved", by_card(number, persist=True)))
    method_id = made.order.payments[-1].started.method.method_id
    for name in ("López", "Pérez", "López"):
        await change_customer(ledger, merchant, "ana", CustomerFields(last_name=name))

    async def broken_rules(*operations: tuple[Asked, RecordedAnswer]) -> set[str]:
        path = tmp_path / str(uuid4())
        witness = Witness(path)
        for asked, recorded in operations:
            await witness.ended(await witness.invoke(asked), "ok", recorded)
        witness.close()
        return {violation.rule for violation in (await judge(database_url, path, 60)).violations}

    def about(do: str, **more: Any) -> tuple[Asked, RecordedAnswer]:
        asked = Asked(do=do, merchant_id=merchant.merchant_id, customer="ana", **more)
        return asked, RecordedAnswer(status=200)

    saved = (
        about("create", external_id="saved", amount=10_000, number=number)[0],
        structs.replace(answer(made), method_id=method_id),
    )
    assert await broken_rules(saved, about("change-customer", value="López")) == set()
    assert await broken_rules(saved, about("change-customer", value="López", key="k")) == {"doubled"}
    for lost in (
        about("erase-customer"),
        about("delete-method", method=method_id),
        about("change-customer", value="Ruiz"),
        about("change-method", method=method_id, value="Oaxaca"),
        (saved[0], structs.replace(saved[1], method_id=uuid4())),
    ):
        assert await broken_rules(lost) == {LOST}
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create table planted as select 'card {number}' as text")
        assert await broken_rules(saved) == {"numbers outside the vault"}
        connection.execute("drop table planted")
        connection.execute("delete from vault_card")
    assert await broken_rules(saved) == {"the vault agrees", "the audit is clean"}
