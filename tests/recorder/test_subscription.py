"""A subscription delivers every event once and in order, from any writer, with or without notifications."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Timer
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from eventsourcing.persistence import (
    ApplicationRecorder,
    InfrastructureFactory,
    Notification,
    StoredEvent,
    Subscription,
)
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.journal.small_log import command, fetch, open_log, writer_kind
from tests.recorder.full_speed import BARE_DDL, writing
from tests.service.trees import eventually
from uuid_utils.compat import uuid7

from ledger.recorder import subscription as module

LAST = "last.v1"
_SECONDS = 1.5


@pytest.fixture
def bare_url(module_url: str) -> str:
    if os.environ.get("LEDGER_TEST_CITUS"):
        pytest.skip("a plain sequence numbers over all merchants, whose rows no node has together")
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute("drop table if exists bare")
        connection.execute(BARE_DDL)
    return module_url


@pytest.fixture
def open_recorder(module_url: str) -> Iterator[Callable[..., ApplicationRecorder]]:
    """Opens recorders on a merchant's log, each with its own connections."""
    factories = []

    def open_one(merchant: UUID, url: str = module_url) -> ApplicationRecorder:
        env = {
            "PERSISTENCE_MODULE": "ledger.recorder",
            "LEDGER_DATABASE_URL": url,
            "LEDGER_MERCHANT_ID": str(merchant),
        }
        factories.append(InfrastructureFactory.construct(env))
        return factories[-1].application_recorder()

    yield open_one
    for factory in factories:
        factory.close()


def an_event(topic: str = "something.v1") -> StoredEvent:
    return StoredEvent(uuid4(), 1, topic, b"no JSON")


@contextmanager
def subscribed(recorder: ApplicationRecorder, topics: Sequence[str] = ()) -> Iterator[Subscription[Any]]:
    """Yields a subscription that ends after twenty seconds, in case the test waits in vain."""
    with recorder.subscribe(topics=topics) as subscription:
        alarm = Timer(20.0, subscription.stop)
        alarm.start()
        try:
            yield subscription
        finally:
            alarm.cancel()


def follow(recorder: ApplicationRecorder) -> list[Notification]:
    """Returns all events up to the one with the topic LAST."""
    delivered = []
    with subscribed(recorder) as subscription:
        for notification in subscription:
            delivered.append(notification)
            if notification.topic == LAST:
                break
    return delivered


def test_every_event_is_delivered_once_and_in_order_while_two_processes_write_at_full_speed(
    bare_url, merchant, open_recorder
):
    """Two processes of the journal's writer and one thread of the library, all on one merchant's log."""
    library, ended = open_recorder(merchant), Event()

    def insert() -> int:
        inserted = 0
        while not ended.is_set():
            inserted += len(library.insert_events([an_event(), an_event()]))
        return inserted

    with ThreadPoolExecutor() as threads, writing(bare_url, merchant, merchant) as processes:
        following_it, inserting = threads.submit(follow, open_recorder(merchant)), threads.submit(insert)
        time.sleep(_SECONDS)
        acknowledged = processes.end()
        ended.set()
        inserted = inserting.result(10)
        library.insert_events([an_event(LAST)])
        delivered = following_it.result(30)

    total = sum(acknowledged) + inserted + 1
    assert [notification.id for notification in delivered] == list(range(1, total + 1))
    assert min(*acknowledged, inserted) > 20, "all three really wrote"
    log = fetch(bare_url, "select stream_id, version from event where merchant_id = %s order by position", merchant)
    assert [(notification.originator_id, notification.originator_version) for notification in delivered] == log


def test_a_reader_that_follows_a_plain_sequence_loses_events_under_the_same_load(bare_url, open_recorder):
    """The control, with two merchants, so that commits overlap. The subscriptions beside it lose nothing."""
    merchants, ended, last = [open_log(bare_url), open_log(bare_url)], Event(), [0]

    def tail() -> int:
        seen = 0
        with psycopg.connect(bare_url, autocommit=True) as connection:
            while True:
                at_the_end = ended.is_set()
                rows = connection.execute("select seq from bare where seq > %s order by seq", last).fetchall()
                seen += len(rows)
                last[0] = rows[-1][0] if rows else last[0]
                if at_the_end:
                    return seen

    with ThreadPoolExecutor() as threads, writing(bare_url, *merchants) as processes:
        tailing = threads.submit(tail)
        followers = [threads.submit(follow, open_recorder(merchant)) for merchant in merchants]
        with psycopg.connect(bare_url) as late:  # at least this commit is not in the order of the sequence
            row = late.execute("insert into bare (merchant_id, stream_id) values (%s, %s) returning seq", [uuid7()] * 2)
            (held,) = row.fetchone() or (0,)
            eventually(lambda: last[0] > held, 60)
        time.sleep(_SECONDS)
        acknowledged = processes.end()
        ended.set()
        tailed = tailing.result(30)
        for merchant in merchants:
            open_recorder(merchant).insert_events([an_event(LAST)])
        delivered = [following_it.result(30) for following_it in followers]

    assert fetch(bare_url, "select 2 * (count(*) - 1) from bare") == [(sum(acknowledged),)]
    assert fetch(bare_url, "select count(*) from bare")[0][0] > tailed, "the tail lost at least the late commit"
    for events, count in zip(delivered, acknowledged, strict=True):
        assert [notification.id for notification in events] == list(range(1, count + 2))


def test_a_follower_is_notified_by_every_writer(module_url, merchant, open_recorder, monkeypatch):
    monkeypatch.setattr(module, "_READ_EVERY_S", 60.0)
    with subscribed(open_recorder(merchant)) as subscription:
        until(lambda: followed(module_url, merchant))
        open_recorder(merchant).insert_events([an_event("by the library")])
        assert next(subscription).topic == "by the library"
        write(module_url, merchant)
        assert next(subscription).topic == "test.v1"


def test_a_follower_without_notifications_reads_new_events_anyway(module_url, merchant, open_recorder):
    with subscribed(open_recorder(merchant)) as subscription:
        until(lambda: followed(module_url, merchant))
        fetch(module_url, "update merchant_head set followed_until = null where merchant_id = %s returning 1", merchant)
        write(module_url, merchant)
        assert next(subscription).id == 1


def test_a_log_without_followers_is_written_without_a_notification(module_url, merchant):
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(f"ledger_{merchant}")))
        write(module_url, merchant)
        assert list(connection.notifies(timeout=0.3)) == []
        connection.execute(
            "update merchant_head set followed_until = now() + interval '1 minute' where merchant_id = %s", (merchant,)
        )
        write(module_url, merchant)
        assert len(list(connection.notifies(timeout=30, stop_after=1))) == 1


def test_a_follower_continues_after_its_connections_were_ended(module_url, merchant, open_recorder):
    recorder = open_recorder(merchant)
    with subscribed(recorder) as subscription:
        for position in range(1, 4):
            until(lambda: followed(module_url, merchant))
            ended = fetch(
                module_url,
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name in ('ledger-follower', 'ledger-recorder')",
            )
            assert ended, "something was really cut"
            write(module_url, merchant)
            assert next(subscription).id == position


def test_a_role_that_may_only_read_can_follow(module_url, merchant, open_recorder):
    role = f"reader_{uuid4().hex[:8]}"
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'reads'")
        connection.execute(f"grant select on event to {role}")
        try:
            recorder = open_recorder(merchant, make_conninfo(module_url, user=role, password="reads"))
            with subscribed(recorder) as subscription:
                write(module_url, merchant)
                assert next(subscription).id == 1
        finally:
            connection.execute(f"drop owned by {role}; drop role {role}")


def test_events_of_other_topics_are_not_read_again_each_time(merchant, open_recorder, monkeypatch):
    recorder = open_recorder(merchant)
    begun_at = []
    select = recorder.select_notifications

    def watched(start, *arguments, **named):
        begun_at.append(start)
        return select(start, *arguments, **named)

    recorder.insert_events([an_event("rare"), *[an_event() for _ in range(1_000)]])
    monkeypatch.setattr(recorder, "select_notifications", watched)
    with subscribed(recorder, ["rare"]) as subscription:
        assert next(subscription).id == 1
        until(lambda: 1_001 in begun_at)
        recorder.insert_events([an_event(), an_event("rare")])
        assert next(subscription).id == 1_003


def test_a_subscription_of_topics_loses_nothing_while_other_topics_are_written(bare_url, merchant, open_recorder):
    library = open_recorder(merchant)
    with writing(bare_url, merchant) as processes, subscribed(library, ["rare"]) as subscription:
        sent = [library.insert_events([an_event("rare")])[0] for _ in range(200)]
        assert [next(subscription).id for _ in sent] == sent
        (acknowledged,) = processes.end()
    assert acknowledged > 200, "others were really written"


def write(url: str, merchant: UUID) -> None:
    """Appends one event by the journal's own writer."""
    import asyncio

    async def once() -> None:
        writer = writer_kind()(url)
        await writer.start()
        await writer.submit(command(merchant, (uuid7(), 0, 1)))
        await writer.stop()

    asyncio.run(once())


def followed(url: str, merchant: UUID) -> bool:
    return fetch(url, "select followed_until > now() from merchant_head where merchant_id = %s", merchant) == [(True,)]


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.01)
