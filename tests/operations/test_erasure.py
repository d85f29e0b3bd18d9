"""Erasing a person: gone from the log, from every row and from every process, while the money and the order stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET
from tests.operations.conftest import DECLINED, Open, an_order, by_card, register
from tests.operations.test_sealing import NAMES, PLACES, XOCHITL, fetch, personal_order, places_of
from tests.sealing import data_keys
from tests.whole_log import whole_log
from uuid_utils.compat import uuid7

from ledger.background.erasure import ErasureSweep
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import CustomerNotFound
from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader
from ledger.operations.context import customer_cache as cache
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import _delete, delete_customer
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.postgres.connection import connect
from ledger.postgres.faults import DatabaseUnavailable
from ledger.ttl_cache import TtlCache
from projections.erasures import Erasures
from projections.rebuild import Rows, replay, stored
from projections.search.compaction import SearchCompactor

pytestmark = pytest.mark.anyio

WORDS = (*NAMES, *PLACES)


async def places_of_personal_data(url: str, *tables: str) -> set[tuple[str, str]]:
    """Returns where personal data is found once the worker has compacted the search lines."""
    async with SearchCompactor(url) as search:
        await search.pack()
    return places_of(url, WORDS, *tables)


@pytest.fixture
async def payers(database_url: str) -> AsyncIterator[Erasures]:
    async with Erasures(database_url) as payers:
        yield payers


async def log_and_rows(url: str, merchant: Actor, events_max: int | None = None) -> tuple[Rows, Rows]:
    """Returns the rows that follow from the merchant's log, read without cached keys, and the rows that are stored."""
    async with await connect(url, "test-replay") as connection:
        log = await whole_log(LogReader("", CODEC, data_keys()), connection, merchant.merchant_id, events_max)
        events = [(event.stream_id, event.version, event.event) for event in log]
        return replay(merchant.merchant_id, events), await stored(connection, merchant.merchant_id)


async def test_an_erased_person_is_found_nowhere(
    ledger: Ledger, merchant: Actor, database_url: str, payers: Erasures
) -> None:
    for n in range(3):
        await create_order(ledger, merchant, personal_order(f"{n}"))
    neighbour = await create_order(ledger, merchant, an_order("other"))
    assert places_of(database_url, WORDS), "the scan finds what is there"
    erased = (await delete_customer(ledger, merchant, "c-7", payers.orders_of)).state
    assert (erased.first_name, erased.email, erased.active, erased.external_id) == (None, None, False, "c-7")
    assert await places_of_personal_data(database_url) == set()
    assert places_of(database_url, ("ana@example.com",)), neighbour
    assert fetch(database_url, "select count(*) filter (where wrapped is null), count(*) from data_key") == [(1, 2)]


async def test_a_replay_after_an_erasure_gives_the_rows_that_are_stored(
    ledger: Ledger, merchant: Actor, database_url: str, payers: Erasures
) -> None:
    await create_order(ledger, merchant, personal_order("1"))
    await create_order(ledger, merchant, personal_order("2", payment=by_card(DECLINED)))
    await create_order(ledger, merchant, an_order("other"))
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual
    before = len(fetch(database_url, "select 1 from event"))
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual
    past, _ = await log_and_rows(database_url, merchant, before)
    assert all(word.encode() not in repr(past).encode() for word in WORDS), "nor does a replay of the past show it"


async def test_the_money_the_order_and_the_payment_references_stay(
    ledger: Ledger, merchant: Actor, payers: Erasures
) -> None:
    paid = (await create_order(ledger, merchant, personal_order("1"))).order
    await delete_customer(ledger, merchant, str(paid.terms.customer_id), payers.orders_of)
    shown = await create_order(ledger, merchant, personal_order("1"))
    assert (shown.replayed, shown.customer.erased) == (True, True)
    order = shown.order
    assert (order.status, order.amount_paid, order.amount) == (paid.status, paid.amount_paid, paid.amount)
    assert (order.terms.order_number, order.terms.description) == (paid.terms.order_number, paid.terms.description)
    was, card = paid.payments[0].started.method.card, order.payments[0].started.method.card
    assert was is not None
    assert card is not None
    assert (card.bin, card.last4, card.cardholder_name) == (was.bin, was.last4, None)
    assert (order.terms.fiscal, order.terms.metadata) == (None, UNSET)
    assert order.payments[0].processor_reference == paid.payments[0].processor_reference


async def test_an_order_of_an_erased_person_can_be_paid_and_gets_no_personal_data(
    ledger: Ledger, merchant: Actor, database_url: str, payers: Erasures
) -> None:
    await create_order(ledger, merchant, personal_order("pending", payment=None))
    await create_order(ledger, merchant, personal_order("failed", payment=by_card(DECLINED)))
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    draft = personal_order("failed")
    assert draft.payment is not None
    charged = await charge_order(ledger, merchant, "pending", draft.payment)
    again = await create_order(ledger, merchant, draft)
    assert {charged.order.status, again.order.status} == {OrderStatus.COMPLETED}
    assert await places_of_personal_data(database_url) == set()
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual


async def test_a_person_who_was_erased_is_not_found_again(ledger: Ledger, merchant: Actor, payers: Erasures) -> None:
    first = await create_order(ledger, merchant, personal_order("1"))
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    for customer in (XOCHITL, CustomerInput(id="c-7"), CustomerInput(id=str(first.customer.customer_id))):
        with pytest.raises(CustomerNotFound):
            await create_order(ledger, merchant, an_order("2", customer=customer))
    with pytest.raises(CustomerNotFound):
        await delete_customer(ledger, merchant, "nobody", payers.orders_of)


async def test_erased_twice_and_at_once_is_erased_once(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, payers: Erasures
) -> None:
    for n in range(4):
        await create_order(ledger, merchant, personal_order(f"{n}"))
    other = await open_another()
    deleting = [delete_customer(at, merchant, "c-7", payers.orders_of) for at in (ledger, other, ledger)]
    ended = await asyncio.gather(*deleting, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ended) == ["CustomerNotFound", "CustomerNotFound", "StreamResult"]
    topics = fetch(
        database_url, "select topic, count(*) from event where topic ~ 'erased|forgotten' group by 1 order by 1"
    )
    assert topics == [("customer-erased.v1", 1), ("payer-forgotten.v1", 4)]


async def test_a_process_with_the_person_in_its_cache_cannot_write_the_person_back(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, payers: Erasures
) -> None:
    await create_order(ledger, merchant, personal_order("pending", payment=None))
    other = await open_another()
    await create_order(other, merchant, personal_order("mine"))
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    with pytest.raises(CustomerNotFound):
        await create_order(other, merchant, personal_order("new"))
    draft = personal_order("x")
    assert draft.payment is not None
    await charge_order(other, merchant, "pending", draft.payment)
    assert await places_of_personal_data(database_url) == set()


async def test_an_erasure_during_orders_of_the_same_person_leaves_nothing(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str, payers: Erasures
) -> None:
    other = await open_another()

    async def create(at: Ledger, n: int) -> str:
        try:
            await create_order(at, merchant, personal_order(f"{n}"))
        except CustomerNotFound:
            return "not found"
        return "created"

    await create(ledger, 0)
    creating = [asyncio.create_task(create(at, n)) for n, at in enumerate([ledger, other] * 20, 1)]
    await asyncio.sleep(0.03)
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    ended = await asyncio.gather(*creating)
    assert len(ended) == 40
    expected, actual = await log_and_rows(database_url, merchant)
    assert expected == actual
    assert places_of(database_url, WORDS, "event", "payment_order", "customer") == set()


async def test_an_interrupted_erasure_is_finished_by_the_worker(
    ledger: Ledger, merchant: Actor, database_url: str, payers: Erasures
) -> None:
    for n in range(3):
        await create_order(ledger, merchant, personal_order(f"{n}"))

    async def dies(*_: Any) -> list[UUID]:
        raise KeyboardInterrupt("between the key and the rows")

    with pytest.raises(KeyboardInterrupt):
        await _delete(UnitOfWork(ledger, merchant), merchant, "c-7", dies)
    assert places_of(database_url, WORDS, "payment_order")
    forgetting = ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished)
    assert len(await payers.unfinished(10)) == 1
    await forgetting.sweep()
    assert await places_of_personal_data(database_url) == set()
    assert await payers.unfinished(10) == []


async def test_a_deletion_is_answered_although_the_orders_cannot_be_read_and_the_worker_finishes_it(
    ledger: Ledger, merchant: Actor, database_url: str, payers: Erasures
) -> None:
    await create_order(ledger, merchant, personal_order("1"))

    async def fails(*_: Any) -> list[UUID]:
        raise DatabaseUnavailable("for a moment")

    deleted = await delete_customer(ledger, merchant, "c-7", fails)
    assert deleted.state.erased
    await ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished).sweep()
    assert await places_of_personal_data(database_url) == set()


def test_the_planner_keeps_no_samples_of_customers(database_url: str) -> None:
    columns = "select attname from pg_attribute where attrelid = 'customer'::regclass and attstattarget = 0"
    personal = {"email", "email_folded", "text_folded", "doc", "extras"}
    assert {name for (name,) in fetch(database_url, columns)} == personal


async def test_an_erasure_that_fails_delays_no_other(
    ledger: Ledger, database_url: str, payers: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.background.erasure._AT_ONCE", 1)
    merchants = [(await register(ledger)).merchant_id for _ in range(2)]
    customers = [uuid7() for _ in range(4)]
    async with await connect(database_url, "test-erasures") as connection:
        for n, customer_id in enumerate(customers):
            insert = "insert into data_key (merchant_id, customer_id, destroyed_at) values (%s, %s, now())"
            await connection.execute(insert, (merchants[n == 3], customer_id))
    assert {merchant_id for merchant_id, _ in await payers.unfinished(2)} == {*merchants}, "each merchant in turn"
    walked = []

    async def fails(merchant_id: UUID, customer_id: UUID, *_: Any) -> Sequence[UUID]:
        walked.append(customer_id)
        if customer_id == customers[0]:
            raise DatabaseUnavailable("for this customer alone")
        return []

    forgetting = ErasureSweep(ledger, payers.unfinished, fails, payers.finished)
    for _ in range(5):
        await forgetting.sweep()
    assert sorted(walked) == sorted(customers), "the one that fails waits"
    assert await payers.unfinished(10) == [(merchants[0], customers[0])]


async def test_what_a_process_caches_expires_without_being_read(
    merchant: Actor, open_another: Open, payers: Erasures, monkeypatch: pytest.MonkeyPatch, ledger: Ledger
) -> None:
    monkeypatch.setattr(cache, "_TTL_S", 0.3)
    other = await open_another()
    other.journal._keys._cache = TtlCache(10, 0.3)  # type: ignore[union-attr]
    await create_order(other, merchant, personal_order("1"))
    assert other.customers.get(merchant.merchant_id, "c-7") is not None
    await delete_customer(ledger, merchant, "c-7", payers.orders_of)
    await asyncio.sleep(0.5)
    assert (len(other.customers._cached), len(other.journal._keys._cache)) == (0, 0)  # type: ignore[union-attr]


async def test_an_answer_shows_no_person_who_was_erased_while_its_processor_was_called(
    ledger: Ledger, merchant: Actor, open_another: Open, payers: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_order(ledger, merchant, personal_order("1", payment=None))
    other = await open_another()
    processor = ledger.processors.sandbox
    assert processor is not None
    authorize = processor.authorize

    async def slowly(request: Any) -> Any:
        await delete_customer(other, merchant, "c-7", payers.orders_of)
        return await authorize(request)

    monkeypatch.setattr(processor, "authorize", slowly)
    charged = await charge_order(ledger, merchant, "1", by_card())
    assert charged.order.status is OrderStatus.COMPLETED
    assert (charged.customer.erased, charged.customer.email) == (True, None)
