"""The sandbox processor: a payment company that moves no money, answers by the card number, and keeps a book of its own.

The rule a stranger would break: it behaves like a company outside. It books before it answers, it may book and not
answer, and the ledger learns what became of a call from a look-up alone, never from the book's tables.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from ledger.domain.orders.processor_outcomes import (
    CaptureAnswer,
    ReferenceAnswer,
    ReferenceCancelled,
    RefundAnswer,
    VoidAnswer,
)
from ledger.processors.contract import (
    AuthenticationRequest,
    AuthorizationAnswer,
    AuthorizationRequest,
    Capabilities,
    CaptureRequest,
    PayoutRequest,
    ProcessorTimedOut,
    ReferenceCancellation,
    ReferenceRequest,
    RefundRequest,
    Request,
    VoidRequest,
)
from ledger.processors.messages import DepositReceived
from ledger.processors.sandbox import authentications, authorizations, charges, references
from ledger.processors.sandbox.authentications import PayerPages, StoredAnswer
from ledger.processors.sandbox.call_executor import CallExecutor, CallKind, SandboxCall
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.charge_writer import ChargeWriter
from ledger.processors.sandbox.charges import NAME, CallEffect
from ledger.processors.sandbox.outbox import Outbox
from ledger.processors.sandbox.references import Deposit
from ledger.processors.sandbox.test_cards import APPROVED, TEST_CARDS, TestCard
from ledger.timeouts import Timeout, Timeouts

T = TypeVar("T")

_captures: Final[msgspec.json.Decoder[CaptureAnswer]] = msgspec.json.Decoder(CaptureAnswer)
_voids: Final[msgspec.json.Decoder[VoidAnswer]] = msgspec.json.Decoder(VoidAnswer)
_refunds: Final[msgspec.json.Decoder[RefundAnswer]] = msgspec.json.Decoder(RefundAnswer)
_references: Final[msgspec.json.Decoder[ReferenceAnswer]] = msgspec.json.Decoder(ReferenceAnswer)
_cancellations: Final = msgspec.json.Decoder(ReferenceCancelled)
_deposits: Final = msgspec.json.Decoder(DepositReceived)
_authorizations: Final = msgspec.json.Decoder(StoredAnswer)


class SandboxProcessor:
    """Keeps `contract.Processor`. All times are seconds.

    `delay_s` passes between booking a call and answering it, `slow_s` for a merchant in mode SLOW. A card that never
    answers is given up after `silence_s`. `late_arrival_s` is what the processor promises in its capabilities. The pages
    for payers are below `pages_url`; `pages` and `outbox` are what those pages and the worker that passes messages on ask.
    """

    def __init__(
        self,
        book: ChargeWriter,
        teller: CallExecutor,
        *,
        pages_url: str = "http://127.0.0.1:8000/api/sandbox/3ds",
        delay_s: float = 0.0,
        slow_s: float = 5.0,
        silence_s: float = 2.0,
        late_arrival_s: float = 60.0,
    ) -> None:
        self.capabilities = Capabilities(name=NAME, late_arrival_s=late_arrival_s, is_simulated=True)
        self.pages = PayerPages(teller)
        self.outbox = Outbox(teller)
        self._book = book
        self._teller = teller
        self._pages_url = pages_url
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._silence_s = silence_s
        self._deadlines = Timeouts()

    # ---------------------------------------------------------------- cards

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        """Book the call and answer by its card. All calls raise ProcessorTimedOut or ProcessorUnavailable."""
        script = TEST_CARDS.get(request.card.number, APPROVED)
        deal = authorizations.card_effect(request, script, self._pages_url)
        if deal is not None:
            return await self._authorization(request, request.idempotency_key, deal)
        try:
            with self._until(request.deadline_at):
                charge = await self._book.write(authorizations.charge_call(request, script))
                await self._think(charge.mode, script)
        except TimeoutError:
            raise _silence() from None
        if not script.answers:
            raise ProcessorTimedOut("the sandbox never answers for this card")
        return charge.answer

    async def submit_device_data(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        deal = authentications.submit_device_data(request, self._pages_url)
        return await self._authorization(request, request.authentication_transaction_id, deal)

    async def validate_authentication(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        deal = authentications.validate(request)
        return await self._authorization(request, request.authentication_transaction_id, deal)

    async def capture(self, request: CaptureRequest) -> CaptureAnswer:
        order = _order(request, CallKind.CAPTURE, request.processor_reference, charges.capture(request))
        return await self._carried_out(request, order, _captures)

    async def void(self, request: VoidRequest) -> VoidAnswer:
        order = _order(request, CallKind.VOID, request.processor_reference, charges.void(request))
        return await self._carried_out(request, order, _voids)

    async def refund(self, request: RefundRequest) -> RefundAnswer:
        order = _order(request, CallKind.REFUND, request.processor_reference, charges.refund(request))
        return await self._carried_out(request, order, _refunds)

    # ---------------------------------------------------------------- references

    async def issue_reference(self, request: ReferenceRequest) -> ReferenceAnswer:
        order = _order(request, CallKind.ISSUE, request.idempotency_key, references.issue(request))
        return await self._carried_out(request, order, _references)

    async def cancel_reference(self, request: ReferenceCancellation) -> ReferenceCancelled:
        order = _order(request, CallKind.CANCEL_REFERENCE, request.processor_reference, references.cancel(request))
        return await self._carried_out(request, order, _cancellations)

    async def pay_out(self, request: PayoutRequest) -> RefundAnswer:
        order = _order(request, CallKind.PAY_OUT, request.processor_reference, references.pay_out(request))
        return await self._carried_out(request, order, _refunds)

    # ---------------------------------------------------------------- look-ups

    async def look_up(self, merchant_id: UUID, idempotency_key: str) -> AuthorizationAnswer | None:
        booked = await self._book.answer_to(merchant_id, idempotency_key)
        if booked is not None:
            return booked
        stored = await self._looked_up(merchant_id, CallKind.AUTHORIZE, idempotency_key, _authorizations)
        return stored.answer if stored else None

    async def look_up_capture(self, merchant_id: UUID, idempotency_key: str) -> CaptureAnswer | None:
        return await self._looked_up(merchant_id, CallKind.CAPTURE, idempotency_key, _captures)

    async def look_up_void(self, merchant_id: UUID, idempotency_key: str) -> VoidAnswer | None:
        return await self._looked_up(merchant_id, CallKind.VOID, idempotency_key, _voids)

    async def look_up_refund(self, merchant_id: UUID, idempotency_key: str) -> RefundAnswer | None:
        return await self._looked_up(merchant_id, CallKind.REFUND, idempotency_key, _refunds)

    async def look_up_reference(self, merchant_id: UUID, idempotency_key: str) -> ReferenceAnswer | None:
        return await self._looked_up(merchant_id, CallKind.ISSUE, idempotency_key, _references)

    async def look_up_cancellation(self, merchant_id: UUID, idempotency_key: str) -> ReferenceCancelled | None:
        return await self._looked_up(merchant_id, CallKind.CANCEL_REFERENCE, idempotency_key, _cancellations)

    async def look_up_payout(self, merchant_id: UUID, idempotency_key: str) -> RefundAnswer | None:
        return await self._looked_up(merchant_id, CallKind.PAY_OUT, idempotency_key, _refunds)

    # ---------------------------------------------------------------- what only a sandbox can do

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None = None) -> None:
        """Be OK, DOWN or SLOW for the merchant's next `times` calls, or until told otherwise.

        Durable, and seen by every process. A processor that is down still tells what became of earlier calls.
        """
        await self._book.set_mode(merchant_id, mode, times)

    async def order_of(self, merchant_id: UUID, sent_to: str) -> UUID | None:
        """The order that a CLABE or reference of this merchant's was issued for. Raises like `deposit`."""
        owner = await references.reference_owner(self._teller, merchant_id, sent_to)
        return None if owner is None else owner.order_id

    async def deposit(self, sent: Deposit) -> DepositReceived:
        """Send money; the message that reports it, which is also in the outbox. The same message id again is absorbed.

        Raises WrongAmount where the reference takes another amount only; ProcessorTimedOut and ProcessorUnavailable.
        """
        owner = await references.reference_owner(self._teller, sent.merchant_id, sent.sent_to)
        order = SandboxCall(
            merchant_id=sent.merchant_id,
            kind=CallKind.DEPOSIT,
            idempotency_key=sent.message_id,
            reference=owner.processor_reference if owner else sent.sent_to,
            deal=references.deposit(sent, owner),
        )
        message, _ = await self._teller.carry_out(order, _deposits.decode)
        return message

    # ---------------------------------------------------------------- how

    async def _authorization(self, request: Request, reference: str, deal: CallEffect) -> AuthorizationAnswer:
        order = _order(request, CallKind.AUTHORIZE, reference, deal)
        return (await self._carried_out(request, order, _authorizations)).answer

    async def _carried_out(self, request: Request, order: SandboxCall, answers: msgspec.json.Decoder[T]) -> T:
        try:
            with self._until(request.deadline_at):
                answer, mode = await self._teller.carry_out(order, answers.decode)
                await self._think(mode)
        except TimeoutError:
            raise _silence() from None
        return answer

    async def _looked_up(
        self, merchant_id: UUID, kind: CallKind, idempotency_key: str, answers: msgspec.json.Decoder[T]
    ) -> T | None:
        text = await self._teller.answer_to(merchant_id, kind, idempotency_key)
        return None if text is None else answers.decode(text)

    async def _think(self, mode: Mode, script: TestCard = APPROVED) -> None:
        pause = self._slow_s if mode is Mode.SLOW else self._delay_s
        if not script.answers:
            pause = self._silence_s
        if pause:
            await asyncio.sleep(pause)

    def _until(self, deadline_at: datetime) -> Timeout:
        return self._deadlines.within((deadline_at - datetime.now(UTC)).total_seconds())


def _silence() -> ProcessorTimedOut:
    return ProcessorTimedOut("no answer before the deadline")


def _order(request: Request, kind: CallKind, reference: str, deal: CallEffect) -> SandboxCall:
    return SandboxCall(
        merchant_id=request.merchant_id,
        kind=kind,
        idempotency_key=request.idempotency_key,
        reference=reference,
        deal=deal,
    )
