"""The call that ends a session at its processor: what is asked, what is voided, and what an answer means."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ledger.domain.orders.events import SessionEnd
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined, Voided, VoidRefused
from ledger.domain.orders.statuses import NextAction
from ledger.operations.pipeline.session_end import end_session, look_up_session_end
from ledger.processors.contract import Capabilities, LookUpRequest, ProcessorTimedOut, ProcessorUnavailable, VoidRequest

pytestmark = pytest.mark.anyio

ONE, NOW = UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC)
ABOUT: dict[str, Any] = {
    "merchant_id": ONE,
    "idempotency_key": "end",
    "deadline_at": NOW,
    "at": NOW,
    "order_id": ONE,
    "payment_id": ONE,
}
VOID = VoidRequest(processor_reference="pi_1", **ABOUT)
LOOK_UP = LookUpRequest(step=EntryAction.CANCELLATION, processor_reference="pi_1", **ABOUT)
WAITS = ActionRequired(next_action=NextAction.CHALLENGE, authentication_transaction_id="pi_1", reference_id="pi_1")
PAID = Approved(authorized=Decimal(100), captured=Decimal(100), processor_reference="pi_1")
HELD = Approved(authorized=Decimal(100), captured=Decimal(0), processor_reference="pi_1")
FAILED, DONE = Declined(code="AUTHENTICATION_FAILED"), Voided(processor_reference="pi_1")
REFUSED = VoidRefused(code="ALREADY_CAPTURED")
EXPIRED, UNWANTED = SessionEnd.EXPIRED, SessionEnd.ORDER_CANCELLED


class Bank:
    """A processor that gives these answers, one after another; an exception is raised. It notes what it was asked."""

    capabilities = Capabilities(name="bank", late_arrival_s=0, can_fence=True)

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), ""

    async def look_up(self, request: LookUpRequest) -> Any:
        assert (request.step, request.fence) == (EntryAction.AUTHENTICATION, False)
        return self._answer("?")

    async def look_up_void(self, request: LookUpRequest) -> Any:
        return self._answer("f" if request.fence else "v")

    async def void(self, request: VoidRequest) -> Any:
        assert request is VOID
        return self._answer("!")

    def _answer(self, asked: str) -> Any:
        self.asked += asked
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("because", "answers", "asked", "outcome"),
    [
        (EXPIRED, (WAITS, DONE), "?!", DONE),
        (EXPIRED, (None, DONE), "?!", DONE),
        (EXPIRED, (HELD,), "?", HELD),
        (EXPIRED, (PAID,), "?", PAID),
        (EXPIRED, (FAILED, DONE), "?!", FAILED),
        (EXPIRED, (WAITS, REFUSED, PAID), "?!?", PAID),
        (EXPIRED, (ProcessorTimedOut(),), "?", ProcessorUnavailable),
        (EXPIRED, (WAITS, ProcessorTimedOut()), "?!", ProcessorTimedOut),
        (EXPIRED, (WAITS, ProcessorUnavailable()), "?!", ProcessorUnavailable),
        (UNWANTED, (DONE,), "!", DONE),
        (UNWANTED, (REFUSED, PAID), "!?", PAID),
        (UNWANTED, (REFUSED, WAITS), "!?", ProcessorTimedOut),
        (UNWANTED, (REFUSED, ProcessorUnavailable()), "!?", ProcessorTimedOut),
    ],
)
async def test_a_session_is_ended(because: SessionEnd, answers: tuple[Any, ...], asked: str, outcome: Any) -> None:
    bank: Any = Bank(*answers)
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            await end_session(bank, VOID, LOOK_UP, because)
    else:
        assert await end_session(bank, VOID, LOOK_UP, because) == outcome
    assert bank.asked == asked


@pytest.mark.parametrize(
    ("because", "fence", "answers", "asked", "outcome"),
    [
        (EXPIRED, False, (DONE,), "v", DONE),
        (EXPIRED, False, (None, HELD, None), "v?f", HELD),  # the void may be under way: it must not release what counts
        (EXPIRED, False, (None, HELD, DONE), "v?f", DONE),
        (EXPIRED, False, (None, PAID), "v?", PAID),
        (EXPIRED, True, (None, HELD), "f?", HELD),
        (EXPIRED, False, (None, WAITS), "v?", None),
        (EXPIRED, False, (None, FAILED), "v?", None),  # the void is sent again
        (UNWANTED, False, (None, HELD), "v?", None),
        (UNWANTED, False, (None, PAID), "v?", PAID),
        (
            UNWANTED,
            True,
            (None, HELD),
            "f?",
            HELD,
        ),  # nothing is sent again: it is recorded, and voided as any other one
        (UNWANTED, True, (None, WAITS), "f?", None),
    ],
)
async def test_an_end_is_looked_up(
    because: SessionEnd,
    fence: bool,
    answers: tuple[Any, ...],
    asked: str,
    outcome: Any,
) -> None:
    bank: Any = Bank(*answers)
    request = LookUpRequest(step=EntryAction.CANCELLATION, processor_reference="pi_1", fence=fence, **ABOUT)
    assert await look_up_session_end(bank, request, because) == outcome
    assert bank.asked == asked
