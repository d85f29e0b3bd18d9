"""The sandbox processor: a card company that moves no money, answers by the card number, and keeps a book of its own.

The rule a stranger would break: it behaves like a company outside. It books before it answers, it may book and not
answer, and the ledger learns what became of a call from `look_up` alone, never from the book's table.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.gateways.book import Book
from ledger.gateways.bookings import Answer, Call, Mode
from ledger.gateways.contract import AuthorizationRequest, Capabilities, ProcessorTimedOut
from ledger.money import ZERO, rounded
from ledger.orders.commands import Approved, Declined
from ledger.orders.events import RefusedBy

NAME: Final = "sandbox"


class Script(Struct, frozen=True, kw_only=True):
    """How a test card behaves when it is asked for money."""

    declined: Declined | None = None
    grants_half: bool = False
    captures: bool = True
    answers: bool = True


def _declined(code: str, message: str, refused_by: RefusedBy = RefusedBy.ISSUER) -> Script:
    return Script(declined=Declined(code=code, message=message, refused_by=refused_by))


_LOST_OR_STOLEN: Final = _declined("CARD_LOST_OR_STOLEN", "The card was reported lost or stolen.")

APPROVED: Final = Script()

# Section 5.3 of the contract and its "more cards". A number that does not stand here is approved; a new card is a row.
SCRIPTS: Final = {
    "4000000000000002": _declined("GENERIC_DECLINE", "The issuer declined the payment and gave no reason."),
    "4000000000009995": _declined("INSUFFICIENT_FUNDS", "The card has insufficient funds."),
    "4000000000009987": _LOST_OR_STOLEN,
    "4000000000009979": _LOST_OR_STOLEN,
    "4000000000000069": _declined("CARD_EXPIRED", "The card has expired."),
    "4000000000000127": _declined("INVALID_CVV", "The card's security code is wrong."),
    "4000000000009235": _declined("ISSUER_UNAVAILABLE", "The issuer could not be reached."),
    "4100000000000019": _declined("SUSPECTED_FRAUD", "The payment was blocked by risk rules.", RefusedBy.RISK),
    "4000000000000119": Script(answers=False),
    "4000000000000010": Script(grants_half=True),
    "4000000000007015": Script(captures=False),
}


class SandboxProcessor:
    """Keeps `contract.CardProcessor`. All times are seconds.

    `delay_s` passes between booking a call and answering it, `slow_s` for a merchant in mode SLOW. A card that never
    answers is given up after `silence_s`. `late_arrival_s` is what the processor promises in its capabilities.
    """

    def __init__(
        self,
        book: Book,
        *,
        delay_s: float = 0.0,
        slow_s: float = 5.0,
        silence_s: float = 2.0,
        late_arrival_s: float = 60.0,
    ) -> None:
        self.capabilities = Capabilities(name=NAME, late_arrival_s=late_arrival_s)
        self._book = book
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._silence_s = silence_s

    async def authorize(self, request: AuthorizationRequest) -> Approved | Declined:
        """Book the call and answer by its card. Raises ProcessorTimedOut or ProcessorUnavailable."""
        script = SCRIPTS.get(request.card.number, APPROVED)
        try:
            async with asyncio.timeout((request.deadline_at - datetime.now(UTC)).total_seconds()):
                booking = await self._book.book(_call(request, script))
                pause = self._slow_s if booking.mode is Mode.SLOW else self._delay_s
                if not script.answers:
                    pause = self._silence_s
                if pause:
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise ProcessorTimedOut("no answer before the deadline") from None
        if not script.answers:
            raise ProcessorTimedOut("the sandbox never answers for this card")
        return booking.answer

    async def look_up(self, merchant_id: UUID, idempotency_key: str) -> Answer | None:
        """What the book says of a call. Raises ProcessorTimedOut or ProcessorUnavailable."""
        return await self._book.answer_to(merchant_id, idempotency_key)

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None = None) -> None:
        """Be OK, DOWN or SLOW for the merchant's next `times` authorisations, or until told otherwise.

        Durable, and seen by every process. A processor that is down still tells what became of earlier calls.
        """
        await self._book.set_mode(merchant_id, mode, times)


def _call(request: AuthorizationRequest, script: Script) -> Call:
    number = request.card.number
    # Drawn from the key, so that two processes that book the same call mean the same reference.
    digest = blake2b(request.idempotency_key.encode(), digest_size=10, key=request.merchant_id.bytes).digest()
    reference = f"sbx_{digest.hex()}"
    return Call(
        merchant_id=request.merchant_id,
        idempotency_key=request.idempotency_key,
        amount=request.amount,
        currency=request.currency,
        capture=request.capture,
        card_bin=number[:6],
        card_last4=number[-4:],
        reference=reference,
        answer=script.declined
        or _approved(request, script, reference, f"{int.from_bytes(digest[:4], 'big') % 10**6:06}"),
    )


def _approved(request: AuthorizationRequest, script: Script, reference: str, authorization_code: str) -> Approved:
    granted = _half(request.amount) if script.grants_half else request.amount
    return Approved(
        authorized=granted,
        captured=granted if request.capture and script.captures else ZERO,
        processor_reference=reference,
        authorization_code=authorization_code,
    )


def _half(amount: Decimal) -> Decimal:
    """Half of an amount in whole minor units; all of it where there is no such half."""
    half = rounded(amount / 2, Decimal(1))
    return half if ZERO < half < amount else amount
