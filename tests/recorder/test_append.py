"""The library's events are checked and numbered together with the journal's, and disturb no other stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate
from eventsourcing.persistence import (
    DataError,
    InfrastructureFactory,
    IntegrityError,
    ProcessRecorder,
    ProgrammingError,
    StoredEvent,
    Tracking,
)
from tests.journal.small_log import command, fetch, open_log, writer_kind
from tests.projections.shop import Shop
from tests.sealing import data_keys

from ledger.domain.orders.events import OrderCreated
from ledger.domain.streams import TOPICS
from ledger.journal.append import VersionConflict
from ledger.journal.codec import UnknownTopic
from ledger.journal.journal import Journal
from projections.inline import Inline


@pytest.fixture
def recorder(log_env: dict[str, str]) -> Iterator[ProcessRecorder]:
    factory = InfrastructureFactory.construct(log_env)
    yield factory.process_recorder()
    factory.close()


@pytest.fixture
async def journal(module_url: str) -> AsyncIterator[Journal]:
    journal = Journal(module_url, Inline(), data_keys(module_url), new_writer=writer_kind())
    await journal.start()
    yield journal
    await journal.stop()


@pytest.fixture
async def shop(journal: Journal, merchant: UUID) -> Shop:
    shop = Shop(journal)
    shop.merchant_id = merchant
    return await shop.open()


def stored(stream: UUID, *versions: int, topic: str = "something.v1") -> list[StoredEvent]:
    return [StoredEvent(stream, version, topic, b"no JSON") for version in versions]


def of(recorder: ProcessRecorder, stream: UUID) -> list[int]:
    return [event.originator_version for event in recorder.select_events(stream)]


def test_a_version_that_does_not_follow_the_last_is_refused(recorder):
    stream = uuid4()
    recorder.insert_events(stored(stream, 1, 2))
    for versions in [(4,), (2, 3), (3, 5), (3, 3), (4, 3)]:
        with pytest.raises(IntegrityError):
            recorder.insert_events(stored(stream, *versions))
    assert of(recorder, stream) == [1, 2]
    assert recorder.insert_events(stored(stream, 3)) == [3]


def test_a_call_over_two_streams_is_written_whole_or_not_at_all(recorder):
    taken, fresh = uuid4(), uuid4()
    recorder.insert_events(stored(taken, 1))
    with pytest.raises(IntegrityError):
        recorder.insert_events([*stored(fresh, 1, 2), *stored(taken, 1)])
    assert of(recorder, fresh) == []


def test_the_last_event_of_a_call_has_its_highest_position(recorder):
    a, b = uuid4(), uuid4()
    events = [*stored(a, 1), *stored(b, 1), *stored(a, 2)]
    assert recorder.insert_events(events) == [2, 1, 3]
    log = [(n.originator_id, n.originator_version) for n in recorder.select_notifications(1, 10)]
    assert log == [(b, 1), (a, 1), (a, 2)]


def test_one_merchants_recorder_reads_nothing_of_anothers(recorder, log_env, module_url):
    other_env = {**log_env, "LEDGER_MERCHANT_ID": str(open_log(module_url))}
    with InfrastructureFactory.construct(other_env) as factory:
        other, stream = factory.process_recorder(), uuid4()
        assert recorder.insert_events(stored(stream, 1)) == [1]
        recorder.insert_tracking(Tracking("upstream", 7))
        assert other.select_events(stream) == []
        assert other.max_notification_id() is None
        assert other.max_tracking_id("upstream") is None
        assert other.insert_events(stored(stream, 1)) == [1]
        factory.close()


def test_the_name_of_an_application_may_precede_a_variable(log_env, module_url):
    class Ours(Application[UUID]):
        name = "ours"

    merchant = open_log(module_url)
    with Ours(env={**log_env, "OURS_LEDGER_MERCHANT_ID": str(merchant)}) as ours:
        ours.save(Aggregate())
    assert fetch(module_url, "select count(*) from event where merchant_id = %s", merchant) == [(1,)]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"LEDGER_MERCHANT_ID": ""}, "LEDGER_MERCHANT_ID"),
        ({"LEDGER_MERCHANT_ID": "cafe"}, "LEDGER_MERCHANT_ID"),
        ({"LEDGER_DATABASE_URL": ""}, "LEDGER_DATABASE_URL"),
    ],
)
def test_an_environment_without_a_log_is_refused(log_env, changes, named):
    with pytest.raises(OSError, match=named):
        InfrastructureFactory.construct({**log_env, **changes})


def test_a_merchant_without_a_log_is_refused(log_env):
    with InfrastructureFactory.construct({**log_env, "LEDGER_MERCHANT_ID": str(uuid4())}) as factory:
        with pytest.raises(ProgrammingError, match="has no log"):
            factory.application_recorder().insert_events(stored(uuid4(), 1))
        factory.close()


@pytest.mark.parametrize(
    "event",
    [
        StoredEvent("course-1", 1, "something.v1", b""),
        StoredEvent(uuid4(), -1, "something.v1", b""),
        StoredEvent(uuid4(), 2**31, "something.v1", b""),
        StoredEvent(uuid4(), 1, "nul\x00.v1", b""),
    ],
    ids=["a name for a stream", "a version below zero", "a version beyond the column", "a NUL byte"],
)
def test_an_event_that_cannot_be_stored_is_refused(recorder, event):
    with pytest.raises(DataError):
        recorder.insert_events([event])
    assert recorder.max_notification_id() is None


@pytest.mark.parametrize("topic", TOPICS)
def test_an_event_of_the_ledger_is_not_written_without_its_read_models(recorder, topic):
    with pytest.raises(ProgrammingError, match="is a topic of the ledger"):
        recorder.insert_events(stored(uuid4(), 1, topic=topic))


@pytest.mark.anyio
async def test_nothing_is_appended_to_a_stream_of_the_ledger(shop, recorder):
    order = await shop.order("pedido-1")
    for version in (0, 1, 2):
        with pytest.raises(ProgrammingError, match="belongs to the ledger"):
            recorder.insert_events(stored(order.terms.order_id, version))
    assert len(await shop.journal.reader.stream(shop.merchant_id, order.terms.order_id)) == 1


@pytest.mark.anyio
async def test_a_stream_of_the_library_fails_only_its_own_reads(shop, recorder):
    """A read of it fails for its unknown topic; reads of other streams in the same query succeed."""
    order, stream = await shop.order("pedido-1"), uuid4()
    recorder.insert_events(stored(stream, 0, 1))
    reader = shop.journal.reader
    for _ in range(20):
        library, *orders = await asyncio.gather(
            reader.stream(shop.merchant_id, stream),
            *[reader.stream(shop.merchant_id, order.terms.order_id) for _ in range(3)],
            reader.stream(shop.merchant_id, shop.ana.customer_id),
            return_exceptions=True,
        )
        assert isinstance(library, UnknownTopic)
        assert [len(events) for events in orders] == [1, 1, 1, 1]
    assert (await shop.order("pedido-2")).terms.external_id == "pedido-2"


@pytest.mark.anyio
async def test_the_library_reads_the_ledgers_events_without_personal_data(shop, log_env):
    order = await shop.order("pedido-1")
    with Application[UUID](env=log_env) as application:
        customer, created = map(application.mapper.to_domain_event, application.recorder.select_notifications(1, 10))
        with pytest.raises(ProgrammingError, match="only the journal appends"):
            application.save(created)
    assert (created.originator_id, created.originator_version) == (order.terms.order_id, 1)
    assert isinstance(created.event, OrderCreated)
    assert created.event.external_id == "pedido-1"
    assert customer.event.customer_id == shop.ana.customer_id
    assert shop.ana.email is not None
    assert not customer.event.email


@pytest.mark.anyio
async def test_of_the_library_and_the_journal_at_the_same_version_one_wins(module_url, merchant, recorder):
    writer = writer_kind()(module_url)
    await writer.start()
    winners = []
    for _ in range(30):
        stream = uuid4()
        results = await asyncio.gather(
            writer.submit(command(merchant, (stream, 0, 1))),
            asyncio.to_thread(recorder.insert_events, stored(stream, 1)),
            return_exceptions=True,
        )
        lost = [result for result in results if isinstance(result, Exception)]
        assert [type(result) for result in lost] in ([VersionConflict], [IntegrityError])
        winners.append(type(results[0]) is int)
    await writer.stop()
    positions = fetch(module_url, "select position from event where merchant_id = %s order by 1", merchant)
    assert positions == [(n,) for n in range(1, 31)]


def test_events_and_tracking_are_one_commit(recorder, module_url):
    stream = uuid4()
    recorder.insert_events(stored(stream, 1), tracking=Tracking("upstream", 5))
    with pytest.raises(IntegrityError, match="processed before"):
        recorder.insert_events(stored(stream, 2), tracking=Tracking("upstream", 5))
    assert of(recorder, stream) == [1]
    with pytest.raises(IntegrityError, match="has a newer version"):
        recorder.insert_events(stored(stream, 1), tracking=Tracking("upstream", 6))
    assert recorder.max_tracking_id("upstream") == 5
    assert recorder.insert_events(stored(stream, 2), tracking=Tracking("upstream", 6)) == [2]
    assert recorder.max_tracking_id("upstream") == 6


def test_of_several_that_process_an_event_at_once_one_wins(recorder):
    """Four processes of the same projection, as when an old one has not ended yet."""

    def process(position: int) -> int:
        try:
            recorder.insert_events(stored(uuid4(), 1), tracking=Tracking("upstream", position))
        except IntegrityError:
            return 0
        return 1

    with ThreadPoolExecutor(4) as threads:
        for position in range(1, 31):
            assert sum(threads.map(process, [position] * 4)) == 1
    assert recorder.max_notification_id() == 30
