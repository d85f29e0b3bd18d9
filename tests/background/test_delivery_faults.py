"""What goes wrong around deliveries: the database, a secret, another release, an erasure long ago, too many endpoints."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.background.conftest import rows
from tests.background.deliveries import Worker, an_endpoint, cursor, deliveries, receiving, until, working
from tests.background.test_deliveries import change, execute, impatient, move_clock, settled
from tests.operations.conftest import an_order, by_card

from ledger.background.deliveries import health, repeats, sender, session
from ledger.background.deliveries import outcomes as outcomes_module
from ledger.background.deliveries import rendered as rendered_module
from ledger.background.deliveries import store as store_module
from ledger.background.deliveries.delivery import DeliveryStatus
from ledger.background.deliveries.outcomes import DeliveryRow, Outcomes, OutcomeWriter
from ledger.background.deliveries.rendered import RenderedBodies
from ledger.background.deliveries.store import DeliveryStore, Lease
from ledger.domain.public_events.kinds import kinds_of
from ledger.domain.webhooks.terms import Ordering
from ledger.notifications.contract import NotifierUnavailable
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import change_settings
from ledger.operations.orders.cancel import CancelInput, cancel_order
from ledger.operations.orders.create import create_order
from ledger.operations.webhooks.delete import delete_endpoint
from ledger.postgres import connection as connections
from ledger.postgres.connection import SharedClient, connect
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.webhooks.attempts import Attempt, Outcome
from ledger.webhooks.client import WebhookClient
from ledger.webhooks.endpoint_secrets import EndpointSecretStore
from projections.events.feed import FeedReader

pytestmark = pytest.mark.anyio

__all__ = ["impatient"]

ORDERS = ("payment_order.*",)


async def test_an_event_that_could_not_be_signed_is_sent_when_the_database_is_back(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_AGAIN_S", 0.01)
    opened, times = EndpointSecretStore.open, 0

    async def open_later(*about: Any) -> str | None:
        nonlocal times
        times += 1
        if times == 1:
            raise DatabaseUnavailable
        return await opened(*about)

    monkeypatch.setattr(EndpointSecretStore, "open", open_later)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await until(lambda: len(receiver.arrivals) == 1)


@pytest.mark.parametrize("is_lease", [True, False])
async def test_an_attempt_whose_secrets_came_late_is_not_made_without_a_lease_or_with_an_old_body(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch, is_lease: bool
) -> None:
    opened, asked, goes_on, rendered = EndpointSecretStore.open, asyncio.Event(), asyncio.Event(), 0
    made = RenderedBodies.of

    async def open_late(*about: Any) -> str | None:
        asked.set()
        await goes_on.wait()
        return await opened(*about)

    async def count(*about: Any, **options: Any) -> Any:
        nonlocal rendered
        rendered += 1
        return await made(*about, **options)

    monkeypatch.setattr(EndpointSecretStore, "open", open_late)
    monkeypatch.setattr(RenderedBodies, "of", count)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await asked.wait()
        late = worker.sender.sessions[endpoint_id]
        if is_lease:
            with monkeypatch.context() as stopped:
                stopped.setattr(late, "outlasts", lambda _: False)
                goes_on.set()
                await asyncio.sleep(0.2)
                assert receiver.arrivals == []
        else:
            before, until_s = rendered, time.monotonic() + rendered_module.FRESH_S
            await until(lambda: time.monotonic() > until_s)
            goes_on.set()
        await settled(database_url, endpoint_id, ("SUCCEEDED", 1))
        assert is_lease or rendered > before


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_process_that_was_stopped_while_it_read_a_body_does_not_send_a_person_erased_meanwhile(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    monkeypatch.setattr(rendered_module, "READ_MAX_S", 0.3)
    kind, name = (DeliveryStore, "bodies") if is_stored else (FeedReader, "render")
    read, has_read, goes_on = getattr(kind, name), asyncio.Event(), asyncio.Event()

    async def read_and_stop(*about: Any, **options: Any) -> Any:
        found = await read(*about, **options)
        if found and not has_read.is_set():
            has_read.set()
            await goes_on.wait()
        return found

    monkeypatch.setattr(kind, name, read_and_stop)
    async with (
        receiving(lambda _, n: 500 if is_stored and n == 1 else 200) as receiver,
        working(database_url, ledger) as worker,
    ):
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        if is_stored:
            await settled(database_url, endpoint_id, ("PENDING", 1))
            worker.sender.bodies.clear()  # a second has passed
            move_clock(database_url, merchant, 10)
        await has_read.wait()
        execute(database_url, "update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now()")
        await asyncio.sleep(rendered_module.READ_MAX_S)
        goes_on.set()
        await settled(database_url, endpoint_id, ("SUCCEEDED", 2 if is_stored else 1))
    assert [b"ana@example.com" in arrival.body for arrival in receiver.arrivals] == [True, False][not is_stored :]


async def test_an_endpoint_is_tried_again_soon_if_the_database_was_away_when_its_session_began(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_AGAIN_S", 0.05)
    monkeypatch.setattr(sender, "_LOOK_EVERYWHERE_S", 0.05)
    began, times = DeliveryStore.begin, 0

    async def begin_later(*about: Any) -> int | None:
        nonlocal times
        times += 1
        if times == 1:
            raise DatabaseUnavailable
        return await began(*about)

    monkeypatch.setattr(DeliveryStore, "begin", begin_later)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await until(lambda: len(receiver.arrivals) == 1)


async def test_a_lease_that_could_not_be_returned_is_returned_soon(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LINGER_S", 0.0)
    monkeypatch.setattr(sender, "_LOOK_EVERYWHERE_S", 0.05)
    release, failed = DeliveryStore.release, 0

    async def away_once(*about: Any) -> None:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise DatabaseUnavailable("away")
        await release(*about)

    monkeypatch.setattr(DeliveryStore, "release", away_once)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await settled(database_url, endpoint_id, ("SUCCEEDED", 1))
        await until(lambda: cursor(database_url, endpoint_id)[2] is None)
        assert failed >= 2, "at first it could not be returned"


async def test_the_mail_about_a_disabled_endpoint_is_tried_for_a_day_and_delays_no_stop(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        """A mail server that does not answer, or is away."""

        name, timeout_s = "test", 1.0
        tried, is_away = 0, False

        async def send(self, *_: Any) -> None:
            self.tried += 1
            if self.is_away:
                raise NotifierUnavailable("AWAY")
            await asyncio.Event().wait()

    ledger.notifier = silent = Silent()
    monkeypatch.setattr(session, "_STOP_S", 0.01)
    monkeypatch.setattr(sender, "_AFTER_FAILURE_S", 0.05)
    monkeypatch.setattr(sender, "_LOOK_EVERYWHERE_S", 0.05)
    await change_settings(ledger, merchant, {"alert_email": "it@shop.example.com"})
    version = "select version from webhook_cursor"
    async with receiving(lambda *_: 410) as receiver:
        async with asyncio.timeout(20), working(database_url, ledger) as worker:
            await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
            await create_order(ledger, merchant, an_order("0"))
            await worker.number()
            await until(lambda: silent.tried == 1)
        assert rows(database_url, version) == [(1,)], "the next worker writes it"
        silent.is_away = True
        async with working(database_url, ledger) as worker:
            await until(lambda: silent.tried > 3)
            move_clock(database_url, merchant, 86_500)
            await until(lambda: rows(database_url, version) == [(2,)])
            await until(lambda: not worker.sender.sessions)
            tried = silent.tried
            worker.sender.wake(None)
            await asyncio.sleep(0.2)
            assert silent.tried == tried


async def test_a_delivery_that_is_due_is_found_without_a_look_at_all_endpoints(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LINGER_S", 0.0)
    monkeypatch.setattr(sender, "_LOOK_EVERYWHERE_S", 3600.0)
    monkeypatch.setattr(sender, "_LOOK_TIMED_S", 0.05)
    async with receiving(lambda _, n: 200 if n == 2 else 503) as receiver, working(database_url, ledger) as worker:
        receiver.headers = b"Retry-After: 3600\r\n"
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await settled(database_url, endpoint_id, ("PENDING", 1))
        await until(lambda: not worker.sender.sessions)
        worker.sender._everywhere_at = time.monotonic() + 3600
        move_clock(database_url, merchant, 4000)
        await settled(database_url, endpoint_id, ("SUCCEEDED", 2))


async def test_what_is_asked_for_again_while_a_lease_is_given_back_is_due(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LINGER_S", 0.0)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await settled(database_url, endpoint_id, ("SUCCEEDED", 1))
        await until(lambda: cursor(database_url, endpoint_id)[2] is None)
    store = DeliveryStore(database_url)
    key = {"merchant_id": merchant.merchant_id, "endpoint_id": endpoint_id}
    [(event_id,)] = rows(database_url, "select event_id from webhook_delivery")
    execute(database_url, "update webhook_cursor set due_at = now()")
    [taken] = await store.claim_timed(1, [])
    another = repeats.Repeats(database_url)
    with psycopg.connect(database_url) as asking:
        asking.execute(repeats._LOCK, key)
        asking.execute(repeats._REDELIVER.encode(), {**key, "event_id": event_id})
        same = asyncio.create_task(another.redeliver(merchant.merchant_id, event_id, [endpoint_id]))
        await asyncio.wait([same], timeout=0.2)
        asking.execute(repeats._WAKE, key)
        returning = asyncio.create_task(store.release(taken.lease, taken.version))
        waiting = (
            "select 1 from pg_stat_activity where application_name = 'ledger-deliveries' and wait_event_type = 'Lock'"
        )
        await until(lambda: len(rows(database_url, waiting)) == 2)
    await asyncio.gather(returning, same)
    await another.stop()
    assert rows(database_url, "select count(*) from webhook_delivery where is_repeat") == [(1,)], "it waits already"
    [again] = await store.claim_timed(1, [])
    execute(database_url, "delete from webhook_delivery")
    await store.release(again.lease, again.version)
    assert await store.claim_timed(1, []) == [], "it is due no more"
    await store.stop()


async def test_what_is_asked_for_again_while_the_endpoint_is_deleted_is_skipped(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_LINGER_S", 0.0)
    another = repeats.Repeats(database_url)
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await settled(database_url, endpoint_id, ("SUCCEEDED", 1))
        await delete_endpoint(ledger, merchant, str(endpoint_id))
        worker.sender.wake(None)
        acted_on = (
            "select 1 from webhook_cursor join webhook_endpoint using (endpoint_id, version) where holder is null"
        )
        await until(lambda: rows(database_url, acted_on) == [(1,)])
        [(event_id,)] = rows(database_url, "select event_id from webhook_delivery")
        await another.redeliver(merchant.merchant_id, event_id, [endpoint_id])  # which it was found for before
        worker.sender.wake(None)
        await until(lambda: len(deliveries(database_url, endpoint_id)) == 2)
        await until(
            lambda: {status for _, status, _ in deliveries(database_url, endpoint_id)} == {"SUCCEEDED", "SKIPPED"}
        )
        await until(lambda: cursor(database_url, endpoint_id)[2] is None)
        assert rows(database_url, "select due_at from webhook_cursor") == [(None,)], "it is due no more"
    await another.stop()


async def test_an_endpoint_whose_secret_was_destroyed_a_moment_ago_ends_its_session_without_an_error(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving() as receiver, working(database_url, ledger) as worker:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        execute(database_url, "delete from webhook_secret")
        await create_order(ledger, merchant, an_order("0"))
        await worker.number()
        await until(lambda: endpoint_id in worker.sender.sessions)
        await until(lambda: endpoint_id not in worker.sender.sessions)
        assert (worker.sender._failed, receiver.arrivals) == ({}, [])


async def test_an_older_worker_sends_and_writes_what_it_knows_and_leaves_the_endpoint_to_a_newer_one(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_AHEAD_MAX", 2)
    monkeypatch.setattr(sender, "_LOOK_EVERYWHERE_S", 0.05)
    known = FeedReader.after

    async def until_newer(*about: Any) -> Any:
        page = await known(*about)
        if page.events and page.events[0].sequence > 3:
            raise Fault("the next event is of a kind that a newer release has")
        return page

    async with receiving(lambda event, n: 500 if event["sequence"] == 2 and n == 1 else 200) as receiver:
        with monkeypatch.context() as patch:
            patch.setattr(FeedReader, "after", until_newer)
            async with working(database_url, ledger) as worker:
                endpoint_id, _ = await an_endpoint(
                    database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS
                )
                for n in range(3):
                    await create_order(ledger, merchant, an_order(str(n)))
                await worker.number()
                await settled(database_url, endpoint_id, ("PENDING", 1), ("SUCCEEDED", 1))
                await until(lambda: endpoint_id not in worker.sender.sessions)
        # Neither is one that was recorded by a newer worker an obstacle to others.
        execute(database_url, "update webhook_delivery set event_id = %s, body = null where sequence = 2", uuid4())
        move_clock(database_url, merchant, 10)
        async with working(database_url, ledger):
            await until(lambda: 4 in receiver.sequences())
            assert deliveries(database_url, endpoint_id)[0] == (2, "PENDING", 1)


async def test_an_older_worker_neither_passes_nor_skips_a_newer_kind_that_a_pattern_chooses(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving(lambda event, _: 503 if "created" in event["type"] else 200) as receiver:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0", by_card()))
        async with working(database_url, ledger) as worker:
            await worker.number()
            await settled(database_url, endpoint_id, ("PENDING", 1), ("PENDING", 0))
        newer = "set kind = 'payment_order.newer' where kind = 'payment_order.completed'"
        for table in ("public_event", "webhook_delivery"):
            execute(database_url, f"update {table} {newer}")
        ((last,),) = rows(database_url, "select sequence from public_event where kind = 'payment_order.newer'")
        page = await worker.source.after(merchant.merchant_id, 0, 100, kinds_of(ORDERS))
        assert (page.last_sequence < last, page.has_more) == (True, True)
        with pytest.raises(Fault):
            await worker.source.after(merchant.merchant_id, 0, 100, kinds_of(["a_newer.kind"]))
        await change(ledger, merchant, endpoint_id, events=("payment_order.completed", "payment_order.newer"))
        async with working(database_url, ledger):
            await settled(database_url, endpoint_id, ("SKIPPED", 1), ("PENDING", 0))


async def test_an_erasure_is_carried_out_by_a_worker_that_starts_days_later(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving(lambda *_: 500) as receiver:
        async with working(database_url, ledger) as worker:
            endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
            await create_order(ledger, merchant, an_order("0"))
            await worker.number()
            await settled(database_url, endpoint_id, ("PENDING", 1))
        long_ago = "update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now() - interval '3 days'"
        execute(database_url, long_ago)
        query = "select body is not null, has_texts from webhook_delivery"
        assert rows(database_url, query) == [(True, True)]
        async with working(database_url, ledger):
            await until(lambda: rows(database_url, query) == [(False, False)])


async def test_endpoints_take_turns_if_there_are_more_than_a_worker_has_room_for(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_SESSIONS_MAX", 1)
    monkeypatch.setattr(sender, "_SCARCE_REST_S", 0.01)
    monkeypatch.setattr(session, "_TURN_S", 0.0)  # one attempt
    monkeypatch.setattr(health, "AT_ONCE", 1)
    paths, events = [f"/{n}" for n in range(3)], 5
    async with receiving() as receiver, working(database_url, ledger) as worker:
        for path in paths:
            await an_endpoint(database_url, ledger, merchant, receiver.url + path, events=ORDERS)
        for n in range(events):
            await create_order(ledger, merchant, an_order(str(n)))
        await worker.number()
        await until(lambda: all(len(receiver.of(path)) == events for path in paths))  # none keeps its place while idle
    arrived = [arrival.path for arrival in receiver.arrivals]
    turns = [arrived[n : n + len(paths)] for n in range(0, len(arrived), len(paths))]
    assert [sorted(turn) for turn in turns] == [paths] * events, "nor while it is busy"


async def test_what_was_recorded_for_fewer_kinds_is_not_sent_again_once_there_are_more(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as receiver:
        endpoint_id, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/hook", events=("payment_order.created",)
        )
        receiver.holds = lambda event: event["sequence"] == 2
        receiver.go_on.clear()
        for n in range(3):
            await create_order(ledger, merchant, an_order(str(n), by_card()))
        killed = Worker(database_url, ledger)
        killed.start()
        await killed.number()
        await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 2)
        await killed.kill()
        receiver.go_on.set()
        execute(database_url, "update webhook_cursor set held_until = now() - interval '1 second'")
        await change(ledger, merchant, endpoint_id, events=None)
        monkeypatch.setattr(session, "_AHEAD_MAX", 2)
        async with working(database_url, ledger):
            await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 12)
    assert Counter(receiver.sequences()) == Counter([*range(2, 14), 2])


async def test_all_that_waits_in_a_stream_is_read(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_WAITING_AT_ONCE", 2)
    async with (
        receiving(lambda event, _: 503 if event["type"] == "payment_order.created" else 200) as receiver,
        working(database_url, ledger) as worker,
    ):
        address = receiver.url + "/hook"
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, address, ordering=Ordering.STRICT)
        await create_order(ledger, merchant, an_order("0", by_card()))
        await worker.number()
        waiting = [("PENDING", 1), *[("PENDING", 0)] * 3]
        await settled(database_url, endpoint_id, ("SUCCEEDED", 1), *waiting)
        ((stream_id,),) = rows(database_url, "select distinct stream_id from webhook_delivery where status = 'PENDING'")
        lease = Lease(merchant.merchant_id, endpoint_id, uuid4())
        assert [each.sequence for each in await worker.sender.store.waiting(lease, [stream_id])] == [2, 3, 4, 5]


async def test_no_more_is_rendered_for_a_slow_receiver_than_it_takes(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = Attempt(at=datetime.now(UTC), duration_ms=1, outcome=Outcome.DELIVERED)
    rendered = 0
    of = RenderedBodies.of

    async def post(*_: Any, **__: Any) -> Attempt:
        await asyncio.sleep(0.05)
        return accepted

    async def counted(bodies: RenderedBodies, merchant_id: UUID, events: Any, *, is_thin: bool) -> Any:
        nonlocal rendered
        rendered += len(events)
        return await of(bodies, merchant_id, events, is_thin=is_thin)

    monkeypatch.setattr(WebhookClient, "post", post)
    monkeypatch.setattr(RenderedBodies, "of", counted)
    monkeypatch.setattr(rendered_module, "FRESH_S", 0.04)
    monkeypatch.setattr(health, "AT_ONCE", 1)
    endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, "http://127.0.0.1:9/hook", events=ORDERS)
    for n in range(16):
        await create_order(ledger, merchant, an_order(str(n)))
    async with working(database_url, ledger) as worker:
        await worker.number()
        await settled(database_url, endpoint_id, *[("SUCCEEDED", 1)] * 16)
    assert rendered < 100, "it would be 136 for events that are rendered again with each attempt"


async def test_the_bodies_of_the_first_events_are_kept_if_they_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those of an event that is wanted twice, because it is new and repeated."""
    monkeypatch.setattr(rendered_module, "FRESH_S", 3600.0)
    asked: list[list[Any]] = []

    class Source:
        async def render(self, _: UUID, events: Sequence[Any], **__: Any) -> list[bytes]:
            asked.append(list(events))
            return [str(each.id).encode() for each in events[:3]]

    merchant_id, events = uuid4(), [SimpleNamespace(id=uuid4()) for _ in range(4)]
    wanted: list[Any] = [events[0], *events]
    bodies = RenderedBodies(Source())  # type: ignore[arg-type]
    first = await bodies.of(merchant_id, wanted, is_thin=False)
    assert [each and each.content for each in first] == [*[str(each.id).encode() for each in wanted[:3]], None, None]
    assert bodies._size == 2 * len(str(uuid4())), "each of the two that were rendered counts once"
    again = await bodies.of(merchant_id, wanted, is_thin=False)
    assert (again[:3], asked) == (first[:3], [wanted, wanted[3:]])
    assert all(again)
    await bodies.of(merchant_id, wanted, is_thin=True)
    assert asked[2] == wanted, "thin bodies are others"


async def test_a_body_that_took_long_to_read_is_made_again_although_others_before_it_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendered_module, "FRESH_S", 3600.0)
    made: list[bytes] = []

    class Source:
        async def render(self, _: UUID, events: Sequence[Any], **__: Any) -> list[bytes]:
            made.extend(b"%d" % len(made) * (len(made) + 1) for _ in events)
            return made[-len(events) :]

    merchant_id, early, late = uuid4(), SimpleNamespace(id=uuid4()), SimpleNamespace(id=uuid4())
    bodies = RenderedBodies(Source())  # type: ignore[arg-type]
    await bodies.of(merchant_id, [early], is_thin=False)  # type: ignore[list-item]
    with monkeypatch.context() as slow:
        slow.setattr(rendered_module, "READ_MAX_S", 0.0)
        await bodies.of(merchant_id, [late], is_thin=False)  # type: ignore[list-item]
    found = await bodies.of(merchant_id, [early, late], is_thin=False)  # type: ignore[list-item]
    assert [each and each.content for each in found] == [b"0", b"222"]
    assert bodies._size == len(b"0") + len(b"222")


async def test_leases_are_renewed_while_many_deliveries_are_skipped(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DeliveryStore(database_url)
    turn, turns = SharedClient.turn, 0

    def counted(client: SharedClient) -> Any:
        nonlocal turns
        turns += client is store.client
        return turn(client)

    monkeypatch.setattr(SharedClient, "turn", counted)
    await store.skip(Lease(uuid4(), uuid4(), uuid4()))
    await store.stop()
    assert turns == 2, "one for each statement"


@pytest.mark.parametrize("renews", [False, True])
async def test_leases_are_locked_in_one_order(database_url: str, renews: bool) -> None:
    execute(
        database_url,
        "insert into webhook_cursor (merchant_id, endpoint_id, holder, held_until)"
        " select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 2)",
    )
    query = "select merchant_id, endpoint_id, holder from webhook_cursor order by merchant_id desc"
    leases = [Lease(*row) for row in rows(database_url, query)]
    store, writer = DeliveryStore(database_url), OutcomeWriter(database_url)
    async with writer._client.turn() as connection:  # without an order of its own, it locks in that of the parameter
        await connection.execute("set enable_mergejoin = off")
        await connection.execute("set enable_hashjoin = off")
    async with await connect(database_url, "first") as first, await connect(database_url, "second") as second:
        lock = "select from webhook_cursor where endpoint_id = %s for update nowait"
        async with first.transaction():
            await first.execute(lock, (leases[1].endpoint_id,))
            outcomes = [Outcomes(each, 1, health.Health(), []) for each in leases]
            waiting = asyncio.create_task(store.renew(leases) if renews else writer._write(outcomes))
            waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            await until(lambda: bool(rows(database_url, waits)))
            await second.execute(lock, (leases[0].endpoint_id,))  # not locked, because it comes after the other one
        await waiting
    await store.stop()
    await writer.stop()


async def test_outcomes_of_large_bodies_are_written_in_several_transactions(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes_module, "_BYTES_MAX", 1_000)
    write, written = OutcomeWriter._write, list[int]()

    async def noted(self: OutcomeWriter, some: Sequence[Outcomes]) -> dict[UUID, int]:
        written.append(len(some))
        return await write(self, some)

    monkeypatch.setattr(OutcomeWriter, "_write", noted)
    row = DeliveryRow(
        id=uuid4(),
        event_id=uuid4(),
        sequence=1,
        kind="payment_order.created",
        stream_id=uuid4(),
        resource_id=None,
        is_repeat=False,
        status=DeliveryStatus.PENDING,
        next_attempt_at=None,
        first_failed_at=None,
        attempts=(),
        body=b" " * 500,
        has_answers=False,
        is_new=True,
    )
    writer = OutcomeWriter(database_url)
    handed_in = [writer.write(Outcomes(Lease(uuid4(), uuid4(), uuid4()), 1, health.Health(), [row])) for _ in range(5)]
    running = asyncio.create_task(writer.run())
    assert await asyncio.gather(*handed_in) == [None] * 5, "nobody has these leases"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await writer.stop()
    assert written == [2, 2, 1]


async def test_an_outcome_waits_for_the_disk_whatever_the_connection_does(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of each row, so that it is not asked before the statement begins.
    waits = "(current_setting('synchronous_commit' || left(h.holder::text, 0)) = 'on')::int"
    write = outcomes_module._WRITE
    monkeypatch.setattr(
        outcomes_module,
        "_WRITE",
        write._replace(text=write.text.replace(b"h.holder, e.version", b"h.holder, e.version / %b" % waits.encode())),
    )
    monkeypatch.setitem(connections._SETTINGS, "synchronous_commit", "off")
    async with receiving() as receiver:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        async with working(database_url, ledger) as worker:
            await worker.number()
            await settled(database_url, endpoint_id, ("SUCCEEDED", 1))


async def test_what_waits_since_another_worker_had_the_endpoint_goes_first(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    async with receiving(lambda event, _: 503 if event["type"] == "payment_order.created" else 200) as receiver:
        receiver.headers = b"Retry-After: 3600\r\n"
        endpoint_id, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS, ordering=Ordering.STRICT
        )
        await create_order(ledger, merchant, an_order("0"))
        async with working(database_url, ledger) as worker:
            await worker.number()
            await settled(database_url, endpoint_id, ("PENDING", 1))
        await cancel_order(ledger, merchant, "0", CancelInput())
        async with working(database_url, ledger) as worker:
            await worker.number()
            await settled(database_url, endpoint_id, ("PENDING", 1), ("PENDING", 0))
    assert {event["type"] for event in receiver.of("/hook")} == {"payment_order.created"}


async def test_endpoints_of_a_merchant_share_the_pages_of_its_feed(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    after = FeedReader.after

    async def counted(*about: Any) -> Any:
        page = await after(*about)
        read.extend(event.sequence for event in page.events)
        return page

    monkeypatch.setattr(FeedReader, "after", counted)
    monkeypatch.setattr(sender, "_LOOK_S", 3600.0)  # a look may come between the numbers and what they wake
    paths = [f"/{n}" for n in range(4)]
    async with receiving() as receiver, working(database_url, ledger) as worker:
        for path in paths:
            await an_endpoint(database_url, ledger, merchant, receiver.url + path, events=ORDERS)
        for n in (1, 2):  # what was read is out of date once there is more
            await create_order(ledger, merchant, an_order(str(n)))
            await worker.number()
            await until(lambda n=n: all(len(receiver.of(path)) == n for path in paths))  # type: ignore[misc]
    assert read == receiver.sequences("/0")


async def test_a_worker_does_not_go_on_without_its_writer(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise UnicodeError("a surrogate")

    monkeypatch.setattr(OutcomeWriter, "_write", fail)
    async with receiving() as receiver:
        endpoint_id, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/hook", events=ORDERS)
        await create_order(ledger, merchant, an_order("0"))
        worker = Worker(database_url, ledger)
        worker.start()
        await worker.number()
        assert worker.task is not None
        async with asyncio.timeout(20):
            with pytest.raises(UnicodeError):
                await worker.task
        await worker.source.stop()
    assert cursor(database_url, endpoint_id)[0] == 0
