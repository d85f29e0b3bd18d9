"""Messages to customers of subscriptions, through the timers and a real mail server: once each, to who wants them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.notifications.conftest import Start, certificate, start
from tests.operations.conftest import Open
from tests.operations.test_reminders import Crash, Mailbox, _later
from tests.subscriptions.shop import SAVED_DECLINED, Shop

from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.customers.state import Customer
from ledger.domain.subscriptions.notice_events import NoticeDroppedBecause, NoticeEvent, NoticeKind
from ledger.domain.subscriptions.state import Subscription
from ledger.notifications.contract import NotificationRefused, NotificationUnanswered
from ledger.notifications.smtp import SmtpNotifier, parse_server
from ledger.operations.context.inputs import CustomerFields
from ledger.operations.customers.change import change_customer
from ledger.operations.message_call import AttemptRunning
from ledger.operations.subscriptions import notify
from ledger.operations.subscriptions.change import change_subscription
from ledger.operations.subscriptions.notify import notify_customer
from ledger.operations.subscriptions.requests import SubscriptionUpdate

__all__ = ["certificate", "start"]

pytestmark = pytest.mark.anyio

B, K = NoticeDroppedBecause, NoticeKind


async def reachable(shop: Shop, **preferences: Any) -> None:
    """Gives the customer an e-mail address, and these preferences."""
    await shop.card()
    fields = CustomerFields(first_name="Ana", email="ana@example.com", preferences=preferences)
    await change_customer(shop.ledger, shop.actor, "ana", fields)


async def recorded(shop: Shop, made: Subscription) -> list[NoticeEvent]:
    events = await shop.ledger.journal.reader.stream(shop.merchant_id, made.subscription_id)
    return [event for event in events if isinstance(event, NoticeEvent)]


async def test_the_customer_learns_of_the_trial_s_end_of_declines_and_of_payments(shop: Shop, start: Start) -> None:
    server = await start()
    sender = parse_server(f"smtp://127.0.0.1:{server.port}?tls=none")
    shop.ledger.notifier = SmtpNotifier(sender, "payments@shop.example", timeout_s=60.0)
    await reachable(shop, language="en")
    made = await shop.subscribe(await shop.plan("Gold", trial_period_days=14, max_retries=1), SAVED_DECLINED)
    assert made.trial_end is not None
    server.replies["RCPT"] = "450 4.2.0 greylisted"
    await shop.move(made.trial_end - timedelta(days=3) + timedelta(seconds=30))
    assert server.mails == []
    server.replies.clear()
    await shop.move(made.trial_end - timedelta(days=2))
    await shop.move(made.trial_end + timedelta(days=1))
    await shop.move(made.trial_end + timedelta(days=2, hours=1))
    await change_subscription(
        shop.ledger, shop.actor, str(made.subscription_id), SubscriptionUpdate(payment_method=str(await shop.card()))
    )
    await shop.move(made.trial_end + timedelta(days=3))
    failed = "Your subscription to Gold could not be charged"
    subjects = [mail["Subject"].split(" on ")[0] for mail in server.mails]
    assert subjects == ["Your trial of Gold ends", failed, failed, "Receipt from Café Tacuba: $100.00 MXN"]
    bodies = [mail.get_body(("plain",)).get_content() for mail in server.mails]  # type: ignore[union-attr]
    assert ["Next attempt" in body for body in bodies] == [False, True, False, False]
    assert ["no further automatic attempt" in body for body in bodies] == [False, False, True, False]
    assert ["•••• " in body for body in bodies] == [False, True, True, True]
    assert len({mail["Message-ID"] for mail in server.mails}) == 4
    names = [type(event).__name__ for event in await recorded(shop, made)]
    assert names == ["NoticeRequested", "NoticePostponed", *["NoticeRequested", "NoticeSent"] * 4]
    assert (await shop.at(made.subscription_id)).notices == ()


async def test_many_workers_send_a_message_once(shop: Shop, open_another: Open) -> None:
    await reachable(shop)
    made = await shop.subscribe(await shop.plan())
    mailbox = Mailbox()
    mailbox.go_on.clear()
    ledgers = [shop.ledger, await open_another()]
    for each in ledgers:
        each.notifier = mailbox
    running = [
        asyncio.create_task(notify_customer(each, shop.merchant_id, made.subscription_id)) for each in ledgers * 3
    ]
    pending = set(running)
    while len(pending) > 1:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert done, "all but the one attempt end"
    mailbox.go_on.set()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert [type(each) for each in ended].count(AttemptRunning) == len(running) - 1, ended
    (sent,) = mailbox.accepted
    assert (sent.recipient, sent.sender_name, sent.message.kind) == (
        "ana@example.com",
        "Café Tacuba",
        "RENEWAL_RECEIPT",
    )
    await notify_customer(shop.ledger, shop.merchant_id, made.subscription_id)
    after = await shop.at(made.subscription_id)
    assert (len(mailbox.asked), after.updated_at, after.notices) == (1, made.updated_at, ())


@pytest.mark.long
@pytest.mark.parametrize("place", ["before the message", "after the message", "no answer"])
async def test_a_message_is_sent_twice_at_most_after_crashes_and_missing_answers(
    place: str, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await reachable(shop)
    made = await shop.subscribe(await shop.plan())
    mailbox = shop.ledger.notifier = Mailbox()

    def crash(*_: Any) -> None:
        raise Crash

    async def run() -> None:
        await notify_customer(shop.ledger, shop.merchant_id, made.subscription_id)

    if place == "after the message":
        monkeypatch.setattr(notify.NoticeCall, "record", crash)
    elif place == "before the message":
        mailbox.failures = [Crash(), Crash()]
    else:
        mailbox.failures = [NotificationUnanswered("DATA TIMEOUT"), NotificationUnanswered("DATA TIMEOUT")]
    for attempt in (1, 2):
        if place == "no answer":
            await run()
        else:
            with pytest.raises(Crash):
                await run()
            with pytest.raises(AttemptRunning):  # until the attempt's deadline, another worker may be making it
                await run()
        assert len(mailbox.asked) == attempt
        monkeypatch.setattr(notify, "datetime", _later(hours=attempt))
        await shop.move_only(timedelta(hours=1))
    monkeypatch.undo()
    monkeypatch.setattr(notify, "datetime", _later(hours=3))
    await run()
    assert len(mailbox.asked) == 2
    assert len(set(mailbox.asked)) == 1, "a mail that comes twice has one Message-ID"
    assert (await recorded(shop, made))[-1].because is B.UNKNOWN  # type: ignore[union-attr]


def test_the_customer_s_preferences_decide_about_each_kind() -> None:
    def withheld(email: str | None = "ana@example.com", *, erased: bool = False, **preferences: Any) -> dict[Any, Any]:
        at = datetime(2027, 1, 31, tzinfo=UTC)
        customer = Customer(
            customer_id=UUID(int=1),
            external_id="ana",
            created_at=at,
            updated_at=at,
            email=email,
            erased=erased,
            preferences=NotificationPreferences(**preferences),
        )
        return dict(notify._withheld(customer))

    assert withheld() == {}
    assert withheld(receipts=False) == {K.RECEIPT: B.UNWANTED}
    assert withheld(payment_reminders=False) == {K.TRIAL_WILL_END: B.UNWANTED, K.PAYMENT_FAILED: B.UNWANTED}
    assert withheld(payment_reminders=False, receipts=False) == dict.fromkeys(K, B.UNWANTED)
    assert withheld(None) == dict.fromkeys(K, B.NO_ADDRESS)
    assert withheld(erased=True) == dict.fromkeys(K, B.ERASED)


@pytest.mark.long
async def test_what_is_not_sent_is_recorded_without_the_address(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    await reachable(shop)
    made = await shop.subscribe(await shop.plan())
    shop.ledger.notifier = Mailbox(NotificationRefused("RCPT 550 5.1.1"))
    await notify_customer(shop.ledger, shop.merchant_id, made.subscription_id)
    await change_customer(shop.ledger, shop.actor, "ana", CustomerFields(preferences={"receipts": False}))
    await shop.move(made.current_period_end + timedelta(minutes=1))
    refused, unwanted = (await recorded(shop, made))[1:]
    assert (refused.because, refused.code, unwanted.because) == (B.REFUSED, "RCPT 550 5.1.1", B.UNWANTED)  # type: ignore[union-attr]
    events = await shop.ledger.journal.reader.stream(shop.merchant_id, made.subscription_id)
    logged = capsys.readouterr()
    assert "ana@example.com" not in "".join(map(repr, events)) + logged.out + logged.err


async def test_an_attempt_reads_the_customer_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await reachable(shop)
    made = await shop.subscribe(await shop.plan())
    mailbox = shop.ledger.notifier = Mailbox()
    read, reader = list[UUID](), shop.ledger.journal.reader

    async def noted(merchant_id: UUID, stream_id: UUID, fetch: Any = reader.stream) -> Any:
        read.append(stream_id)
        return await fetch(merchant_id, stream_id)

    monkeypatch.setattr(reader, "stream", noted)
    await notify_customer(shop.ledger, shop.merchant_id, made.subscription_id)
    assert ([sent.recipient for sent in mailbox.accepted], read.count(made.customer_id)) == (["ana@example.com"], 1)
