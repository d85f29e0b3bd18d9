"""Every call to an outside system: how a missing answer becomes an outcome, and which events announce one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from uuid_utils.compat import uuid7

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.rejections import PaymentMethodNotFound, Rejected
from ledger.domain.streams import STREAMS
from ledger.domain.subscriptions.events import ChargeBegun
from ledger.operations.calls import CALLS
from ledger.operations.pipeline.calls import Call, Ended, Failure, Withheld, make_call, read_clocks
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.tasks import Timeouts

pytestmark = pytest.mark.anyio

SOON = timedelta(seconds=5)


class Stamped(Call, frozen=True, kw_only=True):
    """A call that raises what it is given, or returns "done"."""

    deadline: datetime
    at_preparation: Exception | None = None
    at_sending: Exception | None = None
    takes_s: float = 0.0
    reading_takes_s: float = 0.0
    sent: list[str]

    @property
    def stream_id(self) -> UUID:
        return self.merchant_id

    @property
    def deadline_at(self) -> datetime:
        return self.deadline

    async def prepare(self, uow: UnitOfWork) -> None:  # noqa: ARG002 - it needs none
        if self.at_preparation is not None:
            raise self.at_preparation

    async def send(self, prepared: None, left_s: float) -> str:  # noqa: ARG002 - the base's parameters
        self.sent.append("sent")
        await asyncio.sleep(self.takes_s)
        if self.at_sending is not None:
            raise self.at_sending
        return "answer"

    async def read(self, answer: str) -> str:
        await asyncio.sleep(self.reading_takes_s)
        return "done" if answer == "answer" else answer

    def without_answer(self, failure: Failure) -> Ended:
        return failure.ended


async def made(within: timedelta = SOON, **how: Any) -> tuple[Any, list[str], list[Rejected]]:
    """Makes such a call; returns its outcome, what was sent, and why it was withheld."""
    withheld: list[Rejected] = []
    uow: Any = SimpleNamespace(withhold=withheld.append)
    ledger: Any = SimpleNamespace(timeouts=Timeouts())
    sent: list[str] = []
    began = read_clocks()
    call = Stamped(ledger=ledger, merchant_id=uuid7(), deadline=datetime.now(UTC) + within, sent=sent, **how)
    return await make_call(uow, call, began), sent, withheld


async def test_an_answer_is_the_outcome() -> None:
    assert await made() == ("done", ["sent"], [])


@pytest.mark.parametrize(
    ("raised", "ended"),
    [
        (Unavailable(), Ended.NOT_SENT),
        (TimedOut(), Ended.TIMED_OUT),
        (TimeoutError(), Ended.TIMED_OUT),
        (ValueError("no JSON"), Ended.UNREADABLE),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_only_a_call_that_certainly_was_not_sent_counts_as_not_sent(raised: Exception, ended: Ended) -> None:
    assert await made(at_sending=raised) == (ended, ["sent"], [])


async def test_whatever_goes_wrong_before_the_call_nothing_is_sent() -> None:
    assert await made(at_preparation=ValueError("no key")) == (Ended.NOT_SENT, [], [])


async def test_a_call_that_the_merchant_has_made_pointless_is_withheld() -> None:
    rejection = PaymentMethodNotFound("The card was deleted.")
    assert await made(at_preparation=Withheld(rejection)) == (Ended.NOT_SENT, [], [rejection])


async def test_a_call_is_not_made_after_its_deadline() -> None:
    assert await made(within=timedelta(seconds=-1)) == (Ended.NOT_SENT, [], [])


async def test_a_call_that_takes_longer_than_its_deadline_has_an_unknown_outcome() -> None:
    assert await made(within=timedelta(seconds=0.1), takes_s=30.0) == (Ended.TIMED_OUT, ["sent"], [])


async def test_an_answer_in_time_counts_even_if_it_is_read_after_the_deadline() -> None:
    assert await made(within=timedelta(seconds=1), reading_takes_s=1.5) == ("done", ["sent"], [])


def test_every_event_with_the_deadline_of_a_call_announces_one() -> None:
    with_deadline = {
        event for stream in STREAMS for event in stream.topics.values() if "deadline_at" in event.__struct_fields__
    }
    assert with_deadline | {ChargeBegun} <= set(CALLS)
