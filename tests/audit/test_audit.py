"""An audit finds nothing in what the service wrote, and every change that a superuser made to it, by its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from msgspec import structs
from tests.audit.auditing import audit_of, settings_of, wrong_in
from tests.audit.shops import fill, seal
from tests.domain.builders import created, paid
from tests.operations.conftest import an_order, by_card, register

from ledger.audit.auditor import audit, read_saved
from ledger.audit.page import render_page
from ledger.audit.tables import MERGED, STREAM_COLUMNS, differences
from ledger.background.log_sealing import LogSealer
from ledger.backup.rebuild import rebuild
from ledger.domain.customers.events import CustomerDetailsChanged
from ledger.domain.fold import fold
from ledger.domain.orders.events import PaymentCaptured
from ledger.domain.orders.evolve.order import EVOLVE
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import BillingAddress
from ledger.domain.streams import CUSTOMERS, ORDERS
from ledger.journal.append import Change
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.security.secrets import load_checkpoint_keys
from ledger.settings import log_origin
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.keys import LogKeys
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio


def execute(url: str, statement: str, *values: Any) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement, values).rowcount


async def test_what_the_service_wrote_is_clean(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    other = await register(ledger)
    await create_order(ledger, other, an_order("paid", by_card()))
    await fill(ledger, merchant)
    await seal(database_url)
    await create_order(ledger, merchant, an_order("not sealed yet", by_card()))
    for workers in (1, 2):
        report = audit_of(database_url, workers=workers)
        assert wrong_in(report) == []
        assert (report.merchants, report.orders) == (2, 67)
        assert {each.merchant_id for each in report.sealed_to} == {merchant.merchant_id, other.merchant_id}
        assert report.rows > report.orders * 2
    one = audit_of(database_url, other.merchant_id)
    assert (one.merchants, one.orders, one.violations_total) == (1, 1, 0)


# A change of a value of each type, which the column's checks allow.
_CHANGES = {
    "int4": "{c} + 1",
    "int8": "{c} + 1",
    "bool": "not {c}",
    "timestamptz": "{c} + interval '1 ms'",
    "uuid": "gen_random_uuid()",
    "text": "{c} || 'x'",
    "bytea": "{c} || '\\x20'",
}
_KEYS_OF_ROWS = {"merchant_id", "key_hash", "invoice_id", "payment_method_id"}


@pytest.fixture
async def filled(ledger: Ledger, merchant: Actor, database_url: str) -> str:
    """The database of a merchant's log that is sealed, with a full tile."""
    await fill(ledger, merchant)
    await seal(database_url)
    return database_url


def head_of(url: str, merchant: Actor) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select position from merchant_head where merchant_id = %s", [merchant.merchant_id])
        return int(row.fetchone()[0])  # type: ignore[index]


async def test_every_changed_cell_of_every_table_is_named(filled: str, merchant: Actor) -> None:
    changed = set()
    for table in MERGED:
        stream = {name for name, _ in table.columns if name == STREAM_COLUMNS[table.name]}
        for column, kind in table.columns:
            if column in _KEYS_OF_ROWS | stream or table.name in {"search_line", "data_key"}:
                continue
            # the newest row with a value: a column of a row that has none is not changed
            change = _CHANGES[kind].format(c=column)
            row = f"select ctid from {table.name} where {column} is not null and merchant_id = %s limit 1"
            if execute(
                filled, f"update {table.name} set {column} = {change} where ctid = ({row})", merchant.merchant_id
            ):
                changed.add((table.name, column))
    report = audit_of(filled)
    found = {(each.table, (each.column or "").partition(".")[0]) for each in report.violations}
    assert changed - found == set()
    assert {("payment_order", "head"), ("customer", "doc"), ("claim", "kind"), ("merchant", "name")} <= changed
    assert len(changed) > 25


async def test_no_personal_value_is_in_a_report(filled: str, merchant: Actor) -> None:
    execute(filled, "update customer set email = 'eva@example.com', doc = convert_to('{\"email\":\"eva\"}', 'UTF8')")
    execute(
        filled,
        "update payment_order set head = convert_to(replace(convert_from(head, 'UTF8'), '\"amount\"', '\"amont\"'), 'UTF8')",
    )
    execute(
        filled,
        "update payment_order set payments = convert_to(replace(convert_from(payments, 'UTF8'), 'capturedAmount', 'x'), 'UTF8')",
    )
    report = audit_of(filled)
    assert {each.column for each in report.violations} >= {
        "email",
        "doc.email",
        "head.amount",
        "payments.0.capturedAmount",
    }
    captured = next(each for each in report.violations if each.column == "payments.0.capturedAmount")
    assert captured.expected is not None
    assert captured.found == "(none)"
    texts = msgspec.json.encode(report).decode() + render_page(report)
    for personal in ("ana@example.com", "eva", "Ana", "Luis", "4242424242424242"):
        assert personal not in texts


_EVENT_CHANGES = {
    "command_id": "gen_random_uuid()",
    "recorded_at": "recorded_at + interval '1 us'",
    "topic": "topic || 'x'",
    "data": "data || '\\x20'",
    "context": "context || '\\x20'",
    "version": "version + 100",
    "stream_id": "gen_random_uuid()",
    "position": "position + 1000",
    "merchant_id": "gen_random_uuid()",
}


async def test_every_changed_column_of_an_event_is_named_by_its_position(filled: str, merchant: Actor) -> None:
    positions = {}
    for n, (column, change) in enumerate(_EVENT_CHANGES.items()):
        positions[column] = 40 + 9 * n
        where = "where merchant_id = %s and position = %s"
        assert execute(filled, f"update event set {column} = {change} {where}", merchant.merchant_id, positions[column])
    report = audit_of(filled)
    named = {each.position for each in report.violations if each.invariant == "TREE"}
    assert set(positions.values()) <= named
    assert "I10" in {each.invariant for each in report.violations}


async def test_a_cut_tail_and_an_older_database_are_found_by_the_checkpoints_outside(
    filled: str, merchant: Actor, tmp_path: Path
) -> None:
    settings = structs.replace(settings_of(filled), checkpoints_url=str(tmp_path))
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with LogSealer(filled, keys, CheckpointFiles(f"file://{tmp_path}"), every_s=1.0) as sealer:
        await sealer.write_checkpoints(datetime.now(UTC) - timedelta(days=20))
    saved = await read_saved(settings)
    clean, alone = audit_of(filled, saved=saved), audit_of(filled)
    assert wrong_in(clean) == []
    assert {each.outside for each in clean.sealed_to} == {1}
    assert {each.outside for each in alone.sealed_to} == {0}
    head = head_of(filled, merchant)
    with psycopg.connect(filled) as connection:  # as if nothing had been signed
        connection.execute(
            "delete from event where merchant_id = %s and position > %s", [merchant.merchant_id, head - 3]
        )
        connection.execute(
            "update merchant_head set position = %s where merchant_id = %s", [head - 3, merchant.merchant_id]
        )
        for table in ("log_tree", "log_tile", "log_checkpoint"):
            connection.execute(f"delete from {table}")
    assert "TREE" not in {each.invariant for each in audit_of(filled).violations}
    found = {(each.invariant, each.position) for each in audit_of(filled, saved=saved).violations}
    assert ("TREE", head - 2) in found


async def test_audits_beside_writes_erasures_and_rebuilds_are_clean(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    """What is between two commits of an erasure is no violation, nor is a charge without an outcome."""
    ended = asyncio.Event()

    async def write(n: int) -> None:
        for turn in range(12):
            name = f"customer-{n}-{turn}"
            customer = CustomerInput(external_id=name, first_name="Eva", email=f"{name}@example.com")
            order = an_order(f"{n}-{turn}", by_card(persist=True), customer=customer)
            await create_order(ledger, merchant, order)
            if turn % 2:
                await delete_customer(ledger, merchant, name, erasures.orders_of)

    async def keep_sealing() -> None:
        while not ended.is_set():
            await seal(database_url)

    async def keep_rebuilding() -> None:
        while not ended.is_set():
            await rebuild(database_url, ledger.journal.reader)

    async with Erasures(database_url) as erasures:
        beside = asyncio.gather(keep_sealing(), keep_rebuilding())
        writing = asyncio.gather(*[write(n) for n in range(4)])
        audits = []
        while not writing.done():
            audits.append(await asyncio.to_thread(audit_of, database_url))
        await writing
        ended.set()
        await beside
    audits.append(audit_of(database_url))
    assert [wrong_in(report) for report in audits] == [[]] * len(audits)
    assert len({report.events for report in audits}) > 2


async def test_an_erasure_that_is_not_finished_is_no_violation(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async def no_orders(*_: object) -> Sequence[UUID]:
        return ()

    address = BillingAddress(address="Casa 1")
    await create_order(ledger, merchant, an_order("1", by_card(), billing_address=address))
    await delete_customer(ledger, merchant, "ana", no_orders)
    assert wrong_in(audit_of(database_url)) == []
    wrong = """convert_to(replace(convert_from(head, 'UTF8'), '"amount":', '"amount":1'), 'UTF8')"""
    execute(database_url, f"update payment_order set head = {wrong}, amount = amount + 1")
    assert {(each.table, each.column) for each in audit_of(database_url).violations} == {
        ("payment_order", "amount"),
        ("payment_order", "head.amount"),
    }
    execute(database_url, "update data_key set forgotten_at = now()")  # as if the order had been rendered again
    found = {(each.table, each.column) for each in audit_of(database_url).violations}
    assert ("payment_order", "head.billingAddressLine") in found


async def test_checkpoints_under_an_earlier_name_of_a_log_are_no_violation(
    filled: str, merchant: Actor, tmp_path: Path
) -> None:
    """A log that contradicts a checkpoint gets another name, under which it is signed from then on."""
    settings = structs.replace(settings_of(filled), checkpoints_url=str(tmp_path))
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with LogSealer(filled, keys, CheckpointFiles(f"file://{tmp_path}"), every_s=1.0) as sealer:
        await sealer.write_checkpoints(datetime.now(UTC))
    renamed = structs.replace(settings, log_origin="pay.example.com/v1/log-2")
    await seal(filled, log_origin=renamed.log_origin)
    saved = await read_saved(renamed)
    assert saved.sizes
    assert wrong_in(audit(renamed, filled, saved=saved)) == []
    execute(filled, "update log_checkpoint set note = replace(note, 'log-2', 'log-3')")
    (found,) = audit(renamed, filled, saved=saved).violations  # as with another setting than the service has
    assert f"without a checkpoint under the name {renamed.log_origin}/{merchant.merchant_id}" in found.message


async def test_values_that_no_calendar_has_are_named(filled: str) -> None:
    execute(filled, "update payment_order set created_at = 'infinity'")
    execute(filled, "update payment_method set created_at = '20000-01-01'")
    found = {(each.table, each.column): each.found for each in audit_of(filled).violations}
    assert "no time of the calendar" in (found["payment_order", "created_at"] or "")
    assert "no time of the calendar" in (found["payment_method", "created_at"] or "")


async def test_a_customer_who_is_forgotten_before_the_erasure_is_named(filled: str) -> None:
    """The worker would take nothing of the person out of the rows once the customer is erased."""
    execute(filled, "update data_key set forgotten_at = now()")
    assert {(each.table, each.column) for each in audit_of(filled).violations} == {("data_key", "forgotten_at")}


async def test_what_a_merchant_wrote_is_in_no_report() -> None:
    table = next(each for each in MERGED if each.name == "subscription")
    of_log, of_table = (
        tuple(cell if name == "metadata" else b"\0" * 16 for name, _ in table.columns)
        for cell in (b'{"id":"Ana"}', b'{"id":"Eva"}')
    )
    (found,) = differences(table, uuid4(), {}, [of_log], [of_table])
    assert (found.column, found.expected, found.found) == ("metadata", None, None)


async def test_a_broken_fold_is_named(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = (await create_order(ledger, merchant, an_order("paid", by_card()))).order.terms.order_id
    captured = EVOLVE[PaymentCaptured]

    def doubled(order: Order, event: PaymentCaptured) -> Order:
        return captured(order, structs.replace(event, amount=event.amount * 2))

    monkeypatch.setitem(EVOLVE, PaymentCaptured, doubled)
    found = [each for each in audit_of(database_url).violations if each.order_id == order_id]
    assert {(each.invariant, each.position) for each in found} >= {
        ("I3", head_of(database_url, merchant)),
        ("ROW", None),
    }


@pytest.mark.parametrize(
    ("topic", "old", "new"),
    [
        ("payment-captured.v1", '"amount":"10000"', '"amount":"NaN"'),
        ("order-created.v1", '"currency":"MXN"', '"currency":"ZZZ"'),
        ("order-created.v1", '"at":"2', '"at":"0'),
        ("payment-authorized.v1", '"validityS":604800', '"validityS":9000000000000000'),
        ("payment-started.v1", '"surcharge":"0"', '"surcharge":"1e999999"'),
    ],
)
async def test_an_event_of_which_nothing_can_be_computed_is_named(
    filled: str, merchant: Actor, topic: str, old: str, new: str
) -> None:
    with psycopg.connect(filled, autocommit=True) as connection:
        row = connection.execute(
            "update event set data = convert_to(replace(convert_from(data, 'UTF8'), %s, %s), 'UTF8')"
            " where (merchant_id, position) in (select merchant_id, min(position) from event where topic = %s"
            " and merchant_id = %s group by 1) and position(%s in convert_from(data, 'UTF8')) > 0 returning position",
            [old, new, topic, merchant.merchant_id, old],
        ).fetchone()
    assert row is not None
    found = [each for each in audit_of(filled).violations if each.invariant != "TREE"]
    assert found != []
    assert row[0] in {each.position for each in audit_of(filled).violations if each.invariant == "TREE"}


async def test_a_card_number_in_sealed_data_is_named(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    customer_id = (await create_order(ledger, merchant, an_order("1"))).order.terms.customer_id
    before = fold(CUSTOMERS.evolve, None, await ledger.journal.reader.stream(merchant.merchant_id, customer_id))
    changed = CustomerDetailsChanged(customer_id=customer_id, at=datetime.now(UTC), first_name="4242424242424242")
    change = Change(customer_id, 1, [changed], before, CUSTOMERS.evolve(before, changed))
    await ledger.journal.commit(merchant.merchant_id, uuid4(), [change])
    (found,) = audit_of(database_url).violations
    assert (found.invariant, found.stream_id, found.position) == ("I13", customer_id, head_of(database_url, merchant))


async def test_money_of_a_subscription_that_no_invoice_has_is_named(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    customer = (await create_order(ledger, merchant, an_order("1"))).order.terms.customer_id
    order_id = uuid4()
    events = [created(order_id=order_id, customer_id=customer, subscription_id=uuid4()), *paid(1, 10_000)]
    change = Change(order_id, 0, events, None, fold(ORDERS.evolve, None, events))
    await ledger.journal.commit(merchant.merchant_id, uuid4(), [change])
    without_claim, found = audit_of(database_url).violations
    assert (without_claim.table, without_claim.order_id) == ("claim", order_id)
    assert found.invariant == "S2"
    assert found.message == f"order {order_id} has captured 10000, and no invoice is paid by it"
