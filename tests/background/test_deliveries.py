"""The delivery of events to endpoints, with a real database and receivers over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from standardwebhooks.webhooks import WebhookVerificationError
from tests.background.conftest import rows
from tests.background.deliveries import (
    Worker,
    an_endpoint,
    cursor,
    deliveries,
    receiving,
    until,
    verified,
    working,
)
from tests.operations.conftest import DECLINED, an_order, by_card

from ledger.background.deliveries import sender, session
from ledger.background.deliveries.outcomes import OutcomeWriter
from ledger.background.deliveries.retention import Erasures, delete_old
from ledger.background.deliveries.store import Lease
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.commands import ChangeEndpoint
from ledger.domain.webhooks.decide import decide_change
from ledger.domain.webhooks.terms import EndpointStatus, Ordering, Payload, Resume
from ledger.journal.append import Change
from ledger.notifications.contract import MessageKind, Notification, NotifierUnavailable
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.create import create_order
from ledger.operations.webhooks.delete import delete_endpoint
from ledger.operations.webhooks.rotate import rotate_secret

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets sessions look at clocks and at what is due more often than they have to."""
    monkeypatch.setattr(sender, "_LOOK_S", 0.05)
    monkeypatch.setattr(session, "_CLOCK_S", 0.05)


def execute(url: str, statement: str, *values: Any) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement, values)  # type: ignore[arg-type]


def move_clock(url: str, merchant: Actor, seconds: float) -> None:
    """Moves a merchant's clock so far ahead of real time."""
    execute(
        url,
        "insert into merchant_clock (merchant_id, ahead_us) values (%s, %s)"
        " on conflict (merchant_id) do update set ahead_us = excluded.ahead_us",
        merchant.merchant_id,
        int(seconds * 1e6),
    )


async def change(
    ledger: Ledger, merchant: Actor, endpoint_id: UUID, status: EndpointStatus | None = None, **terms: Any
) -> None:
    endpoint, version = await ledger.journal.load(merchant.merchant_id, WEBHOOK_ENDPOINTS, endpoint_id)
    assert endpoint is not None
    events = decide_change(
        endpoint, ChangeEndpoint(terms=terms, at=datetime.now(UTC), status=status, resume=Resume.MISSED)
    )
    after = endpoint
    for event in events:
        after = WEBHOOK_ENDPOINTS.evolve(after, event)
    await ledger.journal.commit(merchant.merchant_id, uuid4(), [Change(endpoint_id, version, events, endpoint, after)])


async def settled(url: str, endpoint_id: UUID, *expected: Any) -> None:
    """Waits until an endpoint's deliveries are these: status and attempts, by sequence."""
    await until(lambda: [each[1:] for each in deliveries(url, endpoint_id)] == list(expected))


async def test_every_event_after_an_endpoints_creation_arrives_once_signed_and_in_order(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("before", by_card()))
    async with receiving() as receiver, working(database_url, ledger) as worker:
        every, secret = await an_endpoint(database_url, ledger, merchant, receiver.url + "/all")
        some, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/some", events=("payment.failed",), payload=Payload.THIN
        )
        receiver.go_on.clear()
        for n in range(9):
            await create_order(ledger, merchant, an_order(str(n), by_card(*[DECLINED] * (n == 3))))
        await worker.number()
        await until(lambda: receiver.under_way == 9)
        await asyncio.sleep(0)
        receiver.go_on.set()
        page = await worker.source.after(merchant.merchant_id, 0, 1000, None)
        expected = [event for event in page.events if event.sequence > 5]
        await until(lambda: len(receiver.of("/all")) == len(expected))
    assert receiver.most_under_way == 8 + 1, "eight to one endpoint, one to the other"
    assert sorted(receiver.sequences("/all")) == [event.sequence for event in expected]
    of_streams: dict[str, list[int]] = {}
    for event in receiver.of("/all"):
        order = event["data"].get("paymentOrderId") or event["resource"]["id"]
        of_streams.setdefault(order, []).append(event["sequence"])
    assert len(of_streams) == 9
    assert all(numbers == sorted(numbers) for numbers in of_streams.values())
    bodies = await worker.source.render(merchant.merchant_id, expected, is_thin=False)
    arrived = {arrival.event["sequence"]: arrival for arrival in receiver.arrivals if arrival.path == "/all"}
    assert [arrived[event.sequence].body for event in expected] == bodies, "the same bytes as in the feed"
    for arrival in arrived.values():
        assert verified(arrival, secret)["id"] == arrival.headers["webhook-id"]
    (one,) = receiver.of("/some")
    assert (one["type"], "data" in one) == ("payment.failed", False)
    for endpoint_id, numbers in ((every, sorted(arrived)), (some, [one["sequence"]])):
        assert deliveries(database_url, endpoint_id) == [(number, "SUCCEEDED", 1) for number in numbers]
        assert cursor(database_url, endpoint_id) == (page.last_sequence, 0, None), "the lease is given back"


async def test_a_failed_attempt_is_made_again_with_the_same_bytes_by_the_merchants_clock_and_real_timestamps(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    day_s = 86_400
    move_clock(database_url, merchant, 9 * day_s)
    async with receiving(lambda event, n: 500 if event["type"] == "payment.created" and n < 3 else 200) as receiver:
        receiver.headers = b"Retry-After: 3600\r\n"
        async with working(database_url, ledger) as worker:
            endpoint_id, secret = await an_endpoint(
                database_url, ledger, merchant, receiver.url + "/hook", events=("payment.*",)
            )
            await create_order(ledger, merchant, an_order("0", by_card()))
            await worker.number()
            await settled(database_url, endpoint_id, ("PENDING", 1), ("PENDING", 0))
            move_clock(database_url, merchant, 9 * day_s + 3700)
            await settled(database_url, endpoint_id, ("PENDING", 2), ("SUCCEEDED", 1))
            ((has_body, wait),) = rows(
                database_url,
                "select body is not null, next_attempt_at - (attempts->1->>'at')::timestamptz from webhook_delivery "
                "where endpoint_id = %s and status = 'PENDING'",
                endpoint_id,
            )
            assert has_body
            assert wait == timedelta(hours=1), "the receiver's wish is longer than five minutes"
        # A worker that begins later finds what is due.
        move_clock(database_url, merchant, 9 * day_s + 8000)
        async with working(database_url, ledger) as worker:
            await settled(database_url, endpoint_id, ("SUCCEEDED", 3), ("SUCCEEDED", 1))
    same = [arrival for arrival in receiver.arrivals if arrival.event["type"] == "payment.created"]
    assert [each.event["type"] for each in receiver.arrivals] == ["payment.created"] * 2 + [
        "payment.captured",
        "payment.created",
    ]
    assert len({(each.body, each.headers["webhook-id"]) for each in same}) == 1
    for arrival in receiver.arrivals:
        verified(arrival, secret)  # which refuses a time that is five minutes from its own
    assert rows(database_url, "select count(*) from webhook_delivery where body is not null or has_texts") == [(0,)]


async def test_what_happens_after_a_change_of_an_endpoint_is_delivered_by_the_change(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_LOOK_S", 60.0)  # so that a session sees the change before the events, or never
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, before = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/old", events=("payment_order.completed",)
        )
        silent, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/silent")
        await an_endpoint(database_url, ledger, merchant, receiver.url + "/same", events=("payment.captured",))
        await create_order(ledger, merchant, an_order("0", by_card()))
        await worker.number()
        await until(lambda: len(receiver.arrivals) == 1 + 5 + 1)
        await change(ledger, merchant, endpoint_id, url=receiver.url + "/new", events=("payment.captured",))
        await change(ledger, merchant, silent, EndpointStatus.DISABLED)
        rotated = await rotate_secret(ledger, merchant, str(endpoint_id), expire_now=True)
        await create_order(ledger, merchant, an_order("1", by_card()))
        await worker.number()
        await until(lambda: bool(receiver.of("/new")) and len(receiver.of("/same")) == 2)
    paths = Counter((arrival.path, arrival.event["type"]) for arrival in receiver.arrivals if arrival.path != "/silent")
    assert paths == {
        ("/old", "payment_order.completed"): 1,
        ("/new", "payment.captured"): 1,
        ("/same", "payment.captured"): 2,
    }
    assert len(receiver.of("/silent")) == 5, "nothing after it was disabled"
    (arrival,) = [arrival for arrival in receiver.arrivals if arrival.path == "/new"]
    assert rotated.secret is not None
    verified(arrival, rotated.secret)
    with pytest.raises(WebhookVerificationError):
        verified(arrival, before)


async def test_what_was_sent_and_not_written_by_a_killed_worker_is_sent_again(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: Any
) -> None:
    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with receiving() as receiver:
        endpoint_id, secret = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook")
        async with working(database_url, ledger) as worker:
            await create_order(ledger, merchant, an_order("0", by_card()))
            await worker.number()
            await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 5)
        with monkeypatch.context() as patch:
            patch.setattr(OutcomeWriter, "_write", never)
            killed = Worker(database_url, ledger)
            killed.start()
            for n in range(1, 10):
                await create_order(ledger, merchant, an_order(str(n), by_card()))
            await killed.number()
            await until(lambda: len(receiver.arrivals) == 5 + 16)
            await asyncio.sleep(0.05)
            assert len(receiver.arrivals) == 5 + 16, "no more than that is begun without a written outcome"
            await killed.kill()
        assert len(deliveries(database_url, endpoint_id)) == 5
        execute(database_url, "update webhook_cursor set held_until = now() - interval '1 second'")  # time has passed
        async with working(database_url, ledger):
            await until(lambda: len(set(receiver.sequences())) == 5 + 9 * 4)
            await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * (5 + 9 * 4))
    times = Counter((each.headers["webhook-id"], each.body) for each in receiver.arrivals)
    assert Counter(times.values()) == {1: 5 + 9 * 4 - 16, 2: 16}
    assert Counter(receiver.sequences()).keys() == set(range(1, 5 + 9 * 4 + 1))
    for arrival in receiver.arrivals:
        verified(arrival, secret)


async def test_an_attempt_that_hangs_holds_the_cursor_and_nothing_else(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving() as receiver:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook")
        receiver.holds = lambda event: event["sequence"] == 2
        receiver.go_on.clear()
        for n in range(3):
            await create_order(ledger, merchant, an_order(str(n), by_card()))
        killed = Worker(database_url, ledger)
        killed.start()
        await killed.number()
        numbers = [1, *range(6, 14)]  # 2 to 5 are of one order
        await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * len(numbers))
        assert [each[0] for each in deliveries(database_url, endpoint_id)] == numbers
        assert cursor(database_url, endpoint_id)[0] == 1
        await killed.kill()
        receiver.go_on.set()
        execute(database_url, "update webhook_cursor set held_until = now() - interval '1 second'")
        async with working(database_url, ledger):
            await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 13)
    assert Counter(receiver.sequences()) == Counter([*range(1, 14), 2])


async def test_outcomes_wait_a_moment_for_those_of_attempts_that_are_under_way(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(session, "_WRITTEN_AFTER_S", 3600.0)
    written: list[int] = []
    write = OutcomeWriter._write

    async def counted(writer: OutcomeWriter, some: Any) -> Any:
        written.append(sum(len(each.rows) for each in some))
        return await write(writer, some)

    monkeypatch.setattr(OutcomeWriter, "_write", counted)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook")
        receiver.holds = lambda event: event["sequence"] == 2
        receiver.go_on.clear()
        for n in range(3):
            await create_order(ledger, merchant, an_order(str(n), by_card()))
        await worker.number()
        await until(lambda: len(receiver.arrivals) == 10)  # 2 to 5 are of one order
        receiver.go_on.set()
        await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 13)
    together = [count for count in written if count]
    assert (together[0] >= 10, sum(together)) == (True, 13)


async def test_two_workers_share_the_endpoints(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    async with (
        receiving() as receiver,
        working(database_url, ledger) as first,
        working(database_url, ledger) as second,
    ):
        for n in range(4):
            await an_endpoint(database_url, ledger, merchant, f"{receiver.url}/{n}")
        receiver.go_on.clear()
        await create_order(ledger, merchant, an_order("0", by_card()))
        await first.number()
        second.sender.wake(None)
        await until(lambda: receiver.under_way == 8)
        for worker in (second, first):
            worker.sender.wake(None)
        await asyncio.sleep(0.05)
        assert not first.sender.sessions.keys() & second.sender.sessions.keys()
        receiver.go_on.set()
        await until(lambda: len(receiver.arrivals) >= 20)
    assert Counter(arrival.path for arrival in receiver.arrivals) == {f"/{n}": 5 for n in range(4)}


async def test_a_worker_that_lost_its_lease_writes_nothing_and_sends_nothing_more(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(sender, "_LOOK_S", 3600.0)  # so that the write finds it
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook")
        receiver.go_on.clear()
        for n in range(12):
            await create_order(ledger, merchant, an_order(str(n), by_card()))
        await worker.number()
        await until(lambda: receiver.under_way == 8)
        before = cursor(database_url, endpoint_id)[:2]
        other = uuid4()
        execute(database_url, "update webhook_cursor set holder = %s, held_until = now() + interval '1 hour'", other)
        receiver.go_on.set()
        await until(lambda: not worker.sender.sessions)
        assert deliveries(database_url, endpoint_id) == []
        assert cursor(database_url, endpoint_id) == (*before, other)
        assert len(receiver.arrivals) <= 16


async def test_a_strict_endpoint_gets_no_event_before_an_earlier_one_of_its_stream_and_deselected_ones_are_skipped(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    refused = {"payment_order.created"}
    async with (
        receiving(lambda event, _: 503 if event["type"] in refused else 200) as receiver,
        working(database_url, ledger) as worker,
    ):
        ids = {}
        for ordering in Ordering:
            ids[ordering], _ = await an_endpoint(
                database_url, ledger, merchant, f"{receiver.url}/{ordering}", ordering=ordering
            )
        await create_order(ledger, merchant, an_order("0", by_card()))
        await worker.number()
        waiting = [("SUCCEEDED", 1), ("PENDING", 1), ("PENDING", 0), ("PENDING", 0), ("PENDING", 0)]
        for endpoint_id in ids.values():
            await settled(database_url, endpoint_id, *waiting)
            assert cursor(database_url, endpoint_id)[0] == 5, "the cursor passes what waits"
        move_clock(database_url, merchant, 70)
        await settled(database_url, ids[Ordering.DEFAULT], ("SUCCEEDED", 1), ("PENDING", 2), *[("SUCCEEDED", 1)] * 3)
        await settled(database_url, ids[Ordering.STRICT], ("SUCCEEDED", 1), ("PENDING", 2), *waiting[2:])
        assert [event["type"] for event in receiver.of("/STRICT")[2:]] == ["payment_order.created"]
        await change(ledger, merchant, ids[Ordering.STRICT], events=("payment.*",), url=receiver.url + "/new")
        worker.sender.wake([merchant.merchant_id])
        expected = ("SUCCEEDED", 1), ("SKIPPED", 2), ("SUCCEEDED", 1), ("SUCCEEDED", 1), ("SKIPPED", 0)
        await settled(database_url, ids[Ordering.STRICT], *expected)
        assert [event["type"] for event in receiver.of("/new")] == ["payment.created", "payment.captured"]
        await delete_endpoint(ledger, merchant, str(ids[Ordering.DEFAULT]))
        worker.sender.wake(None)
        await settled(database_url, ids[Ordering.DEFAULT], ("SUCCEEDED", 1), ("SKIPPED", 2), *[("SUCCEEDED", 1)] * 3)
    assert rows(database_url, "select count(*) from webhook_delivery where body is not null") == [(0,)]


async def test_an_endpoint_that_fails_is_left_alone_and_delays_no_other(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    is_well = False
    async with (
        receiving(lambda *_: 200 if is_well else 500) as receiver,
        receiving() as well,
        working(database_url, ledger) as worker,
    ):
        endpoint_id, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/hook", events=("payment_order.*",)
        )
        await an_endpoint(database_url, ledger, merchant, well.url + "/hook", events=("payment_order.*",))
        for n in range(30):
            await create_order(ledger, merchant, an_order(str(n)))
        await worker.number()
        await until(lambda: len(well.arrivals) == 30)
        await until(lambda: endpoint_id not in worker.sender.sessions)
        tried = len(receiver.arrivals)
        assert 20 <= tried < 20 + 8
        __, failures, holder = cursor(database_url, endpoint_id)
        assert (failures, holder) == (tried, None)
        worker.sender.wake([merchant.merchant_id])
        await asyncio.sleep(0.1)
        assert len(receiver.arrivals) == tried, "it pauses"
        is_well = True
        execute(database_url, "update webhook_cursor set paused_until = now() where endpoint_id = %s", endpoint_id)
        began = asyncio.get_running_loop().time()
        worker.sender.wake([merchant.merchant_id])
        await until(lambda: len(receiver.arrivals) >= tried + 4)
        assert asyncio.get_running_loop().time() - began > 0.25, "ten a second at first"
        await until(lambda: len(set(receiver.sequences())) == 30)
    assert all(attempts < 3 for _, _, attempts in deliveries(database_url, endpoint_id)), "waiting uses no attempts"


async def test_the_texts_of_deliveries_lose_an_erased_person_and_are_deleted_after_a_month(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving(lambda _, n: 500 if n == 1 else 200) as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/hook", events=("payment_order.*",)
        )
        order = (await create_order(ledger, merchant, an_order("0"))).order
        await worker.number()
        await settled(database_url, endpoint_id, ("PENDING", 1))
        execute(
            database_url,
            "update webhook_delivery set attempts = jsonb_set(attempts, '{0,responseBody}', '\"Ana!\"'), has_texts = true",
        )
        query = "select customer_id, body is not null, has_texts, attempts->0->>'responseBody' from webhook_delivery"
        assert rows(database_url, query) == [(order.terms.customer_id, True, True, "Ana!")]
        await Erasures(worker.sender.store).forget()
        assert rows(database_url, query)[0][1:] == (True, True, "Ana!")
        execute(database_url, "update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now()")
        assert await worker.sender.store.bodies(*_first(database_url)) == {}, "not even before it is removed"
        await Erasures(worker.sender.store).forget()
        assert rows(database_url, query)[0][1:] == (False, False, None)
        worker.sender.bodies.clear()  # a second has passed
        move_clock(database_url, merchant, 10)
        await settled(database_url, endpoint_id, ("SUCCEEDED", 2))
    first, second = (arrival.body for arrival in receiver.arrivals)
    assert b"ana@example.com" in first
    assert b"ana@example.com" not in second
    worker.sender.store.client._connection = None
    execute(database_url, "update webhook_delivery set recorded_at = now() - interval '31 days'")
    await delete_old(worker.sender.store.client)
    await worker.sender.store.stop()
    assert deliveries(database_url, endpoint_id) == []


def _first(url: str) -> tuple[Lease, list[UUID]]:
    ((merchant_id, endpoint_id, delivery_id),) = rows(url, "select merchant_id, endpoint_id, id from webhook_delivery")
    return Lease(merchant_id, endpoint_id, uuid4()), [delivery_id]


async def test_a_commit_wakes_the_sessions_and_those_that_have_none(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, jobs: Jobs, database_url: str, monkeypatch: Any
) -> None:
    for module in ("deliveries.sender", "reactions.runner"):
        monkeypatch.setattr(f"ledger.background.{module}._LOOK_EVERYWHERE_S", 3600.0)
    monkeypatch.setattr(sender, "_LOOK_S", 3600.0)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        stop = asyncio.Event()
        runner = ReactionRunner(database_url, dispatcher, jobs, worker.numbers, worker.sender.wake)
        running = asyncio.create_task(runner.run(stop))
        try:
            await until(lambda: bool(rows(database_url, "select from pg_stat_activity where query like 'listen%%'")))
            await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook")
            for n in range(2):
                await create_order(ledger, merchant, an_order(str(n), by_card()))
                await until(lambda n=n: len(receiver.arrivals) == 5 + 4 * n)  # type: ignore[misc]
        finally:
            stop.set()
            await running


class Mailbox:
    """A notifier that keeps what it is given, and is away at first."""

    name, timeout_s = "test", 1.0

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.is_away = True

    async def send(self, notification: Notification, within_s: float) -> None:
        assert within_s > 1
        if self.is_away:
            raise NotifierUnavailable("AWAY")
        self.notifications.append(notification)


async def test_a_receiver_that_is_gone_or_fails_for_days_is_disabled_which_is_announced_once(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: Any
) -> None:
    ledger.notifier = mailbox = Mailbox()
    monkeypatch.setattr("ledger.background.deliveries.sender._AFTER_FAILURE_S", 0.05)
    await change_settings(ledger, merchant, {"alert_email": "it@shop.example.com"})
    answers = {"/gone": 410, "/failing": 500, "/well": 200}
    async with receiving(lambda event, _: answers[event["path"]]) as receiver, working(database_url, ledger) as worker:
        ids = {}
        for path in answers:
            ids[path], _ = await an_endpoint(
                database_url,
                ledger,
                merchant,
                receiver.url + path,
                events=("payment_order.created", "webhook_endpoint.*"),
            )
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await until(lambda: len(receiver.arrivals) == 3)
        await until(lambda: not worker.sender.sessions.get(ids["/gone"]))
        await worker.number()
        await until(lambda: len(receiver.of("/well")) == 2)
        mailbox.is_away = False
        await until(lambda: len(mailbox.notifications) == 1)
        execute(
            database_url,
            "update webhook_cursor set failures_in_a_row = 9, failing_since = now() - interval '6 days', holder = null,"
            " held_until = null, due_at = now() where endpoint_id = %s",
            ids["/failing"],
        )
        move_clock(database_url, merchant, 6)
        worker.sender.wake(None)
        await until(lambda: len(mailbox.notifications) == 2)
        await worker.number()
        await until(lambda: len(receiver.of("/well")) == 3)
        assert len(receiver.of("/gone")) == 1, "nothing is posted to it any more"
        reasons = [event["data"]["disabledReason"] for event in receiver.of("/well")[1:]]
        assert reasons == ["GONE", "FAILING"]
        assert [event["resource"]["id"] for event in receiver.of("/well")[1:]] == [
            str(ids["/gone"]),
            str(ids["/failing"]),
        ]
        answers["/gone"] = 200
        await change(ledger, merchant, ids["/gone"], EndpointStatus.ENABLED)
        worker.sender.wake(None)
        move_clock(database_url, merchant, 20)
        await until(lambda: len(receiver.of("/gone")) == 4)
    assert sorted(set(receiver.sequences("/gone"))) == receiver.sequences("/well"), "it missed nothing"
    gone, failing = mailbox.notifications
    assert (gone.recipient, gone.message.kind) == ("it@shop.example.com", MessageKind.WEBHOOK_DISABLED)
    assert "410" in gone.message.text
    assert receiver.url + "/failing" in failing.message.text
