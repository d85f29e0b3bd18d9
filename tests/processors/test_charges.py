"""Capture, void and refund at the sandbox processor: what each card allows, and once for each key."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import psycopg
import pytest
from tests.processors.shop import NOW, Shop, question
from tests.standbys import waiting_backends, without_standby
from uuid_utils.compat import uuid7

from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import (
    Approved,
    Captured,
    CaptureRefused,
    Declined,
    Refunded,
    RefundPending,
    RefundRefused,
    Released,
    ReleaseRefused,
    Voided,
    VoidRefused,
)
from ledger.processors.contract import Processor, ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.messages import DisputeOpened, RefundConfirmed
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.charges import LATER
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(sandbox: SandboxProcessor) -> Shop:
    return Shop(sandbox)


async def test_it_implements_the_whole_contract(sandbox: SandboxProcessor):
    processor: Processor = sandbox
    assert processor.capabilities.refund_window_s == 180 * 24 * 3600


async def test_an_authorisation_is_captured_in_parts_and_no_further(shop: Shop):
    reference = await shop.authorized()
    assert isinstance(await shop.sandbox.capture(shop.capture(reference, 4_000)), Captured)
    captured = await shop.sandbox.capture(shop.capture(reference, 6_000))
    assert isinstance(captured, Captured)
    assert captured.amount == 6_000
    refused = await shop.sandbox.capture(shop.capture(reference, 1))
    assert isinstance(refused, CaptureRefused)
    assert not refused.retryable


async def test_the_same_key_captures_once_and_is_answered_the_same(shop: Shop, elsewhere: SandboxProcessor):
    request = shop.capture(await shop.authorized(), 6_000)
    answers = await asyncio.gather(*[at.capture(request) for at in (shop.sandbox, elsewhere) * 8])
    assert {answer.processor_reference for answer in answers} == {answers[0].processor_reference}
    assert isinstance(await shop.sandbox.capture(shop.capture(request.processor_reference, 4_000)), Captured)


async def test_two_processes_never_capture_more_than_was_authorised(shop: Shop, elsewhere: SandboxProcessor):
    reference = await shop.authorized()
    requests = [shop.capture(reference, 3_000) for _ in range(10)]
    answers = await asyncio.gather(
        *[at.capture(one) for at, one in zip((shop.sandbox, elsewhere) * 5, requests, strict=True)]
    )
    assert sum(isinstance(answer, Captured) for answer in answers) == 3


async def test_two_processes_never_refund_more_than_was_captured(shop: Shop, elsewhere: SandboxProcessor):
    reference = await shop.authorized(capture=True)
    requests = [shop.refund(reference, 1_000) for _ in range(21)]
    answers = await asyncio.gather(*[(shop.sandbox, elsewhere)[n % 2].refund(one) for n, one in enumerate(requests)])
    assert sum(isinstance(answer, Refunded) for answer in answers) == 10
    assert sum(isinstance(answer, RefundRefused) for answer in answers) == 11


async def test_a_release_ends_the_hold_on_what_the_captures_have_left(shop: Shop, elsewhere: SandboxProcessor):
    reference = await shop.authorized()
    assert isinstance(await shop.sandbox.release(shop.release(reference)), ReleaseRefused), "nothing is captured"
    await shop.sandbox.capture(shop.capture(reference, 6_000))
    released = await shop.sandbox.release(shop.release(reference))
    assert isinstance(released, Released)
    assert released.amount == 4_000
    again = await elsewhere.release(shop.release(reference))
    assert isinstance(again, Released)
    assert again.amount == 4_000, "another key is told what was released in all"
    refused = await shop.sandbox.capture(shop.capture(reference, 1))
    assert isinstance(refused, CaptureRefused)
    assert refused.code == "RELEASED"
    assert isinstance(await shop.sandbox.refund(shop.refund(reference, 6_000)), Refunded)


async def test_a_final_capture_releases_the_rest_with_it(shop: Shop):
    reference = await shop.authorized()
    final = shop.capture(reference, 6_000, final=True)
    captured = await shop.sandbox.capture(final)
    assert isinstance(captured, Captured)
    assert (captured.amount, captured.released) == (6_000, 4_000)
    assert await shop.sandbox.look_up_capture(question(final.merchant_id, final.idempotency_key)) == captured
    assert isinstance(await shop.sandbox.capture(shop.capture(reference, 1)), CaptureRefused)


async def test_a_capture_or_a_release_is_first_in_two_processes(shop: Shop, elsewhere: SandboxProcessor):
    reference = await shop.authorized()
    await shop.sandbox.capture(shop.capture(reference, 6_000))
    capture, release = shop.capture(reference, 4_000), shop.release(reference)
    captured, released = await asyncio.gather(shop.sandbox.capture(capture), elsewhere.release(release))
    assert isinstance(released, Released)
    assert released.amount == (0 if isinstance(captured, Captured) else 4_000)


async def test_a_void_releases_an_authorisation(shop: Shop):
    reference = await shop.authorized()
    assert isinstance(await shop.sandbox.void(shop.void(reference)), Voided)
    assert isinstance(await shop.sandbox.void(shop.void(reference)), Voided)
    assert isinstance(await shop.sandbox.capture(shop.capture(reference)), CaptureRefused)


async def test_captured_money_is_not_voided(shop: Shop):
    reference = await shop.authorized(capture=True)
    assert isinstance(await shop.sandbox.void(shop.void(reference)), VoidRefused)


async def test_some_cards_refuse_captures_voids_or_refunds(shop: Shop):
    assert isinstance(
        await shop.sandbox.capture(shop.capture(await shop.authorized("4000000000007015"))), CaptureRefused
    )
    assert isinstance(await shop.sandbox.void(shop.void(await shop.authorized("4000000000007023"))), VoidRefused)
    paid = await shop.authorized("4000000000007726", capture=True)
    assert isinstance(await shop.sandbox.refund(shop.refund(paid)), RefundRefused)


async def test_a_pending_refund_is_confirmed_by_a_later_message(shop: Shop):
    paid = await shop.authorized("4000000000005126", capture=True)
    request = shop.refund(paid, 4_000)
    pending = await shop.sandbox.refund(request)
    assert isinstance(pending, RefundPending)
    assert isinstance(await shop.sandbox.refund(shop.refund(paid, 7_000)), RefundRefused), "it is reserved"
    assert await shop.due_messages(LATER.total_seconds() - 1) == []
    [message] = await shop.due_messages()
    assert message == RefundConfirmed(
        processor="sandbox",
        message_id=message.message_id,
        merchant_id=shop.merchant_id,
        occurred_at=NOW + LATER,
        order_id=shop.order_id,
        payment_id=shop.payment_id,
        idempotency_key=request.idempotency_key,
        processor_reference=pending.processor_reference,
        amount=Decimal(4_000),
    )


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_captured_payment_is_disputed(shop: Shop, at_once: bool):
    request = shop.authorization("4000000000000259", capture=at_once)
    answer = await shop.sandbox.authorize(request)
    assert isinstance(answer, Approved)
    assert await shop.sandbox.authorize(request) == answer
    assert await shop.sandbox.look_up(question(shop.merchant_id, request.idempotency_key)) == answer
    if not at_once:
        assert await shop.due_messages() == []
        await shop.sandbox.capture(shop.capture(answer.processor_reference, 6_000))
    [message] = await shop.due_messages()
    assert isinstance(message, DisputeOpened)
    assert (message.processor_reference, message.amount) == (answer.processor_reference, 10_000 if at_once else 6_000)


async def test_a_message_stays_due_until_it_is_delivered(shop: Shop):
    await shop.authorized("4000000000000259", capture=True)
    [message] = await shop.due_messages()
    assert await shop.due_messages() == [message]
    assert await shop.sandbox.outbox.merchants_waiting() == [shop.merchant_id]
    assert await shop.sandbox.outbox.next_due_at(shop.merchant_id) == NOW + LATER
    assert await shop.due_messages(merchant_id=uuid7()) == []
    await shop.sandbox.outbox.delivered(message)
    assert await shop.due_messages() == []
    assert await shop.sandbox.outbox.merchants_waiting() == []
    assert await shop.sandbox.outbox.next_due_at(shop.merchant_id) is None


@pytest.mark.parametrize(
    ("number", "code"), [("4000000000000341", "GENERIC_DECLINE"), ("4000000000000358", "CARD_LOST_OR_STOLEN")]
)
async def test_some_cards_are_declined_when_they_are_saved(shop: Shop, number: str, code: str):
    await shop.authorized(number)
    answer = await shop.sandbox.authorize(shop.authorization(number, saved_card=True))
    assert isinstance(answer, Declined)
    assert answer.code == code


async def test_look_ups_return_the_answer_of_each_call(shop: Shop, elsewhere: SandboxProcessor):
    reference = await shop.authorized()
    capture, void = shop.capture(reference), shop.void(reference)
    refund = shop.refund(reference, 2_500)
    captured, refused = await shop.sandbox.capture(capture), await shop.sandbox.void(void)
    refunded = await shop.sandbox.refund(refund)
    assert await elsewhere.look_up_capture(question(shop.merchant_id, capture.idempotency_key)) == captured
    assert await elsewhere.look_up_void(question(shop.merchant_id, void.idempotency_key)) == refused
    assert await elsewhere.look_up_refund(question(shop.merchant_id, refund.idempotency_key)) == refunded
    assert await elsewhere.look_up_refund(question(shop.merchant_id, capture.idempotency_key)) is None
    assert await elsewhere.look_up_capture(question(uuid7(), capture.idempotency_key)) is None


async def test_a_merchant_cannot_act_on_another_merchants_charge(shop: Shop, sandbox: SandboxProcessor):
    theirs = await Shop(sandbox).authorized(capture=True)
    assert isinstance(await sandbox.capture(shop.capture(theirs)), CaptureRefused)
    assert isinstance(await sandbox.void(shop.void(theirs)), VoidRefused)
    assert isinstance(await sandbox.refund(shop.refund(theirs)), RefundRefused)


async def test_a_processor_that_is_down_does_nothing(shop: Shop):
    reference = await shop.authorized()
    await shop.sandbox.set_mode(shop.merchant_id, Mode.DOWN, times=1)
    request = shop.capture(reference)
    with pytest.raises(ProcessorUnavailable):
        await shop.sandbox.capture(request)
    assert await shop.sandbox.look_up_capture(question(shop.merchant_id, request.idempotency_key)) is None
    assert isinstance(await shop.sandbox.capture(request), Captured)


async def test_a_slow_call_times_out_and_is_found_by_a_look_up(shop: Shop):
    from datetime import UTC, datetime, timedelta

    reference = await shop.authorized()
    await shop.sandbox.set_mode(shop.merchant_id, Mode.SLOW, times=1)
    request = shop.capture(reference, deadline_at=datetime.now(UTC) + timedelta(seconds=0.1))
    with pytest.raises(ProcessorTimedOut):
        await shop.sandbox.capture(request)
    await asyncio.sleep(0.2)
    assert isinstance(await shop.sandbox.look_up_capture(question(shop.merchant_id, request.idempotency_key)), Captured)


async def test_a_connection_that_breaks_leaves_the_outcome_unknown_and_the_next_call_is_served(
    shop: Shop, database_url
):
    reference = await shop.authorized()
    request = shop.capture(reference)
    waiting = "select pid from pg_locks where locktype = 'advisory' and not granted"
    with psycopg.connect(database_url, autocommit=True) as connection:
        lock = "select pg_advisory_lock(hashtextextended(%s, 0))"
        connection.execute(lock, [f"{shop.merchant_id}/{reference}"])
        capture = asyncio.ensure_future(shop.sandbox.capture(request))
        async with asyncio.timeout(60):
            while (row := connection.execute(waiting).fetchone()) is None:  # noqa: ASYNC110 - the server sends nothing
                await asyncio.sleep(0.01)
        connection.execute("select pg_terminate_backend(%s, 2000)", row)
    with pytest.raises(ProcessorTimedOut):
        await capture
    assert await shop.sandbox.look_up_capture(question(shop.merchant_id, request.idempotency_key)) is None
    assert isinstance(await shop.sandbox.capture(request), Captured)


async def test_an_answer_that_is_found_is_returned_once_the_standby_has_it(database_url: str, shop: Shop) -> None:
    reference = await shop.authorized(idempotency_key="first")
    capture = shop.capture(reference, idempotency_key="second")
    answer = await shop.sandbox.capture(capture)
    first, second = EntryAction.AUTHORIZATION, EntryAction.CAPTURE
    async with without_standby(database_url):
        found = [
            asyncio.create_task(shop.sandbox.look_up(question(shop.merchant_id, "first", step=first))),
            asyncio.create_task(shop.sandbox.look_up_capture(question(shop.merchant_id, "second", step=second))),
            asyncio.create_task(shop.sandbox.capture(capture)),
        ]
        async with asyncio.timeout(10):
            while len(await waiting_backends(database_url)) < 1 + len(found):  # with the one that tried
                assert not any(each.done() for each in found)
    assert (await asyncio.gather(*found))[1:] == [answer, answer]


@pytest.mark.parametrize("step", [EntryAction.AUTHORIZATION, EntryAction.CAPTURE])
async def test_a_fence_that_is_found_counts_once_the_standby_has_it(
    database_url: str, shop: Shop, step: EntryAction
) -> None:
    """Else the next primary lacks it, and lets a late call through that was reported as never arriving."""
    asked = question(shop.merchant_id, "late", step=step, fence=True)
    look_up = shop.sandbox.look_up if step is EntryAction.AUTHORIZATION else shop.sandbox.look_up_capture
    assert await look_up(asked) is None
    async with without_standby(database_url):
        left = len(await waiting_backends(database_url))
        again = asyncio.create_task(look_up(asked))
        async with asyncio.timeout(10):
            while len(await waiting_backends(database_url)) == left:
                assert not again.done()
    assert await again is None


async def test_calls_that_wait_share_a_transaction(shop: Shop, database_url: str):
    references = [await shop.authorized() for _ in range(30)]
    await asyncio.gather(*[shop.sandbox.capture(shop.capture(reference)) for reference in references])
    with psycopg.connect(database_url) as connection:
        query = "select count(*), count(distinct xmin::text) from sandbox_call where merchant_id = %s"
        row = connection.execute(query, [shop.merchant_id]).fetchone()
    assert row is not None
    captured, transactions = row
    assert captured == 30
    assert transactions < 10


async def test_calls_about_one_charge_that_wait_together_never_take_more_than_it_has(shop: Shop):
    one, other = await shop.authorized(), await shop.authorized()
    requests = [shop.capture(reference, 3_000) for _ in range(5) for reference in (one, other)]
    answers = await asyncio.gather(*[shop.sandbox.capture(request) for request in requests])
    assert [sum(isinstance(each, Captured) for each in answers[n::2]) for n in (0, 1)] == [3, 3]


async def test_a_processor_that_is_down_for_three_calls_refuses_three_of_those_that_wait_together(
    shop: Shop, elsewhere: SandboxProcessor
):
    references = [await shop.authorized() for _ in range(8)]
    other = Shop(elsewhere)
    others = await other.authorized()
    await shop.sandbox.set_mode(shop.merchant_id, Mode.DOWN, times=3)
    answers = await asyncio.gather(
        *[shop.sandbox.capture(shop.capture(reference)) for reference in references],
        shop.sandbox.capture(other.capture(others)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, ProcessorUnavailable) for each in answers[:-1]) == 3
    assert sum(isinstance(each, Captured) for each in answers[:-1]) == 5
    assert isinstance(answers[-1], Captured)


async def test_a_call_that_the_database_refuses_fails_none_of_those_that_wait_with_it(shop: Shop, database_url: str):
    references = [await shop.authorized() for _ in range(6)]
    refused = shop.capture(references.pop())
    with psycopg.connect(database_url, autocommit=True) as connection:
        check = "alter table sandbox_call add constraint no_such_call check (idempotency_key <> '{}')"
        connection.execute(check.format(refused.idempotency_key))
        answers = await asyncio.gather(
            shop.sandbox.capture(refused),
            *[shop.sandbox.capture(shop.capture(reference)) for reference in references],
            return_exceptions=True,
        )
        connection.execute("alter table sandbox_call drop constraint no_such_call")
    assert isinstance(answers[0], ProcessorUnavailable)
    assert all(isinstance(each, Captured) for each in answers[1:])
    assert isinstance(await shop.sandbox.capture(refused), Captured)
