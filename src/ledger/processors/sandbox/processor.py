"""The sandbox processor: it moves no money, answers by the card number, and keeps its own records.

It behaves like an external processor: it records a call before it answers, and may record without answering. Find out
about a call only by a look-up, never by reading the sandbox's tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from ledger.domain.money import FINEST
from ledger.domain.orders.processor_outcomes import (
    CaptureAnswer,
    Declined,
    ReferenceAnswer,
    ReferenceCancelled,
    RefundAnswer,
    ReleaseAnswer,
    VoidAnswer,
)
from ledger.processors.contract import (
    AuthenticationRequest,
    AuthorizationAnswer,
    AuthorizationRequest,
    Capabilities,
    CaptureRequest,
    CardToken,
    ForgetCardRequest,
    LineRequest,
    LookUpRequest,
    PayoutRequest,
    ProcessorRecord,
    ProcessorTimedOut,
    ReferenceCancellation,
    ReferenceRequest,
    RefundRequest,
    ReleaseRequest,
    Request,
    TokenCard,
    TokenRequest,
    VoidRequest,
)
from ledger.processors.findings import Finding
from ledger.processors.messages import DepositReceived, MessageNotice, NoticeReceived, SettlementLine
from ledger.processors.sandbox import authentications, authorizations, charges, references, saved_cards
from ledger.processors.sandbox.authentications import PayerPages, StoredAnswer
from ledger.processors.sandbox.books import NAME
from ledger.processors.sandbox.call_executor import CallEffect, CallExecutor, CallKind, SandboxCall
from ledger.processors.sandbox.charge_rows import Mode
from ledger.processors.sandbox.charge_writer import WAITING_MAX, ChargeWriter
from ledger.processors.sandbox.outbox import Outbox
from ledger.processors.sandbox.records import records
from ledger.processors.sandbox.references import Deposit
from ledger.processors.sandbox.test_cards import APPROVED, OFFERED, TestCard, behaviour_of, card_of
from ledger.tasks import Timeout, Timeouts

T = TypeVar("T")
R = TypeVar("R", bound=Request)

_NO_LINES: Final[tuple[SettlementLine, ...]] = ()
_CAPTURES: Final[msgspec.json.Decoder[CaptureAnswer]] = msgspec.json.Decoder(CaptureAnswer)
_VOIDS: Final[msgspec.json.Decoder[VoidAnswer]] = msgspec.json.Decoder(VoidAnswer)
_RELEASES: Final[msgspec.json.Decoder[ReleaseAnswer]] = msgspec.json.Decoder(ReleaseAnswer)
_REFUNDS: Final[msgspec.json.Decoder[RefundAnswer]] = msgspec.json.Decoder(RefundAnswer)
_REFERENCES: Final[msgspec.json.Decoder[ReferenceAnswer]] = msgspec.json.Decoder(ReferenceAnswer)
_CANCELLATIONS: Final = msgspec.json.Decoder(ReferenceCancelled)
_DEPOSITS: Final = msgspec.json.Decoder(DepositReceived)
_AUTHORIZATIONS: Final = msgspec.json.Decoder(StoredAnswer)


class SandboxProcessor:
    """The simulated implementation of `contract.Processor`. All times are seconds.

    `delay_s` passes between recording a call and answering it, `slow_s` for a merchant in mode SLOW. A call with a card
    that never answers times out after `silence_s`. `late_arrival_s` is the value in its capabilities. The pages for
    payers are below `pages_url`, and use `pages`; the worker that delivers messages uses `outbox`. All calls raise
    ProcessorTimedOut or ProcessorUnavailable. It keeps its records in the book `book_id`, or those of each merchant
    under the merchant's own id.
    """

    def __init__(
        self,
        executor: CallExecutor,
        *,
        pages_url: str = "http://127.0.0.1:8000/api/sandbox/3ds",
        delay_s: float = 0.0,
        slow_s: float = 5.0,
        silence_s: float = 2.0,
        late_arrival_s: float = 60.0,
        waiting_max: int = WAITING_MAX,
        book_id: UUID | None = None,
    ) -> None:
        self.capabilities = Capabilities(
            name=NAME,
            late_arrival_s=late_arrival_s,
            can_fence=True,
            is_simulated=True,
            smallest_amount=FINEST,
            reads_payers=False,
            takes_card_tokens=True,
            methods=OFFERED,
        )
        self.pages = PayerPages(executor)
        self.outbox = Outbox(executor)
        self._charge_writer = ChargeWriter(executor, waiting_max=waiting_max)
        self._executor = executor
        self._book_id = book_id
        self._pages_url = pages_url
        self._delay_s = delay_s
        self._slow_s = slow_s
        self._silence_s = silence_s
        self._timeouts = Timeouts()

    @property
    def alive(self) -> bool:
        """Whether calls are carried out."""
        return self._executor.alive

    # ---------------------------------------------------------------- cards

    async def read_token(self, request: TokenRequest) -> TokenCard | None:
        return card_of(request.token)

    async def forget_card(self, request: ForgetCardRequest) -> None:
        await saved_cards.forget(self._executor, self._in_book(request).merchant_id, request.token.token)

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        """Records the call and answers by its card. No card that comes by its number is kept."""
        request = self._in_book(request)
        if not isinstance(request.card, CardToken):
            return await self._answer(request)
        opened = await saved_cards.opened(self._executor, request, request.card)
        if opened is None:
            return Declined(code="GENERIC_DECLINE", message="The sandbox keeps this card no longer.")
        return await self._with_reference(opened, await self._answer(opened))

    async def _answer(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        card = behaviour_of(request.card)
        effect = authorizations.card_effect(request, card, self._pages_url)
        if effect is not None:
            return await self._authorize(request, request.idempotency_key, effect, card)
        try:
            with self._until(request.deadline_at):
                charge = await self._charge_writer.write(authorizations.charge_call(request, card))
                await self._delay(charge.mode, card)
        except TimeoutError:
            raise _timed_out() from None
        if not card.answers:
            raise ProcessorTimedOut("the sandbox never answers for this card")
        return charge.answer

    async def submit_device_data(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        request = self._in_book(request)
        effect = authentications.submit_device_data(request, self._pages_url)
        answer = await self._authorize(request, request.authentication_transaction_id, effect)
        return await self._with_reference(request, answer)

    async def validate_authentication(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        request = self._in_book(request)
        effect = authentications.validate(request)
        answer = await self._authorize(request, request.authentication_transaction_id, effect)
        return await self._with_reference(request, answer)

    async def capture(self, request: CaptureRequest) -> CaptureAnswer:
        request = self._in_book(request)
        effect = charges.capture(request)
        return await self._carry_out(request, CallKind.CAPTURE, request.processor_reference, effect, _CAPTURES)

    async def void(self, request: VoidRequest) -> VoidAnswer:
        request = self._in_book(request)
        effect = charges.void(request)
        return await self._carry_out(request, CallKind.VOID, request.processor_reference, effect, _VOIDS)

    async def release(self, request: ReleaseRequest) -> ReleaseAnswer:
        request = self._in_book(request)
        effect = charges.release(request)
        return await self._carry_out(request, CallKind.RELEASE, request.processor_reference, effect, _RELEASES)

    async def refund(self, request: RefundRequest) -> RefundAnswer:
        request = self._in_book(request)
        effect = charges.refund(request)
        return await self._carry_out(request, CallKind.REFUND, request.processor_reference, effect, _REFUNDS)

    # ---------------------------------------------------------------- references

    async def issue_reference(self, request: ReferenceRequest) -> ReferenceAnswer:
        request = self._in_book(request)
        effect = references.issue(request)
        return await self._carry_out(request, CallKind.ISSUE, request.idempotency_key, effect, _REFERENCES)

    async def cancel_reference(self, request: ReferenceCancellation) -> ReferenceCancelled:
        request = self._in_book(request)
        kind, effect = CallKind.CANCEL_REFERENCE, references.cancel(request)
        return await self._carry_out(request, kind, request.processor_reference, effect, _CANCELLATIONS)

    async def pay_out(self, request: PayoutRequest) -> RefundAnswer:
        request = self._in_book(request)
        effect = references.pay_out(request)
        return await self._carry_out(request, CallKind.PAY_OUT, request.processor_reference, effect, _REFUNDS)

    # ---------------------------------------------------------------- look-ups

    async def look_up(self, request: LookUpRequest) -> AuthorizationAnswer | None:
        request = self._in_book(request)
        if request.fence:
            await self._executor.fence(request.merchant_id, CallKind.AUTHORIZE, request.idempotency_key)
        recorded = await self._charge_writer.answer_to(request.merchant_id, request.idempotency_key)
        if recorded is not None:
            return await self._with_reference(request, recorded)
        stored = await self._recorded(request, CallKind.AUTHORIZE, _AUTHORIZATIONS)
        return await self._with_reference(request, stored.answer) if stored else None

    async def look_up_capture(self, request: LookUpRequest) -> CaptureAnswer | None:
        return await self._look_up(request, CallKind.CAPTURE, _CAPTURES)

    async def look_up_void(self, request: LookUpRequest) -> VoidAnswer | None:
        return await self._look_up(request, CallKind.VOID, _VOIDS)

    async def look_up_release(self, request: LookUpRequest) -> ReleaseAnswer | None:
        return await self._look_up(request, CallKind.RELEASE, _RELEASES)

    async def look_up_refund(self, request: LookUpRequest) -> RefundAnswer | None:
        return await self._look_up(request, CallKind.REFUND, _REFUNDS)

    async def look_up_reference(self, request: LookUpRequest) -> ReferenceAnswer | None:
        return await self._look_up(request, CallKind.ISSUE, _REFERENCES)

    async def look_up_cancellation(self, request: LookUpRequest) -> ReferenceCancelled | None:
        return await self._look_up(request, CallKind.CANCEL_REFERENCE, _CANCELLATIONS)

    async def look_up_payout(self, request: LookUpRequest) -> RefundAnswer | None:
        return await self._look_up(request, CallKind.PAY_OUT, _REFUNDS)

    async def findings(self, notice: NoticeReceived, deadline_at: datetime) -> Sequence[Finding]:  # noqa: ARG002
        """Returns nothing: its messages come from the outbox, and report themselves what happened."""
        return ()

    async def notices(self, since: datetime, until: datetime) -> Sequence[MessageNotice]:  # noqa: ARG002
        """Returns nothing: its messages come from the outbox."""
        return ()

    def records(self, since: datetime, until: datetime) -> AsyncIterator[ProcessorRecord]:
        return records(self._executor, since, until, self._book_id)

    async def lines(self, since: datetime, until: datetime) -> AsyncIterator[SettlementLine]:  # noqa: ARG002 - the contract's names
        """Yields nothing: the sandbox pays nothing out, and its batches are messages alone."""
        for line in _NO_LINES:
            yield line

    async def look_up_line(self, request: LineRequest) -> SettlementLine | None:  # noqa: ARG002 - the contract's name
        return None

    # ---------------------------------------------------------------- what only a sandbox can do

    async def set_mode(self, merchant_id: UUID, mode: Mode, times: int | None = None) -> None:
        """Sets the mode OK, DOWN or SLOW for the merchant's next `times` calls, or for all if `times` is None.

        The mode is durable and holds in every process. A processor that is down still answers look-ups.
        """
        await self._charge_writer.set_mode(self._book_id or merchant_id, mode, times)

    async def order_of(self, merchant_id: UUID, sent_to: str) -> UUID | None:
        """Returns the order for which this merchant's CLABE or reference was issued, None if it is unknown."""
        owner = await references.reference_owner(self._executor, self._book_id or merchant_id, sent_to)
        return None if owner is None else owner.order_id

    async def deposit(self, sent: Deposit) -> DepositReceived:
        """Sends money. Returns the message that reports it, which is also in the outbox.

        A repeated message id sends nothing more. Raises WrongAmount if the reference accepts only another amount.
        """
        if self._book_id is not None:
            sent = replace(sent, merchant_id=self._book_id)
        owner = await references.reference_owner(self._executor, sent.merchant_id, sent.sent_to)
        call = SandboxCall(
            merchant_id=sent.merchant_id,
            kind=CallKind.DEPOSIT,
            idempotency_key=sent.message_id,
            reference=owner.processor_reference if owner else sent.sent_to,
            effect=references.deposit(sent, owner),
        )
        message, _ = await self._executor.carry_out(call, _DEPOSITS.decode)
        return message

    # ---------------------------------------------------------------- one call

    async def _with_reference(
        self, request: AuthorizationRequest | AuthenticationRequest | LookUpRequest, answer: T
    ) -> T:
        """Returns an approval with the reference of the card that it saves. `request` is in its book."""
        return await saved_cards.with_reference(self._executor, request.merchant_id, request.save_as, answer)

    def _in_book(self, request: R) -> R:
        """Returns a request as it is recorded: in this account's own book, if it has one."""
        return request if self._book_id is None else replace(request, merchant_id=self._book_id)

    async def _authorize(
        self, request: Request, reference: str, effect: CallEffect, card: TestCard = APPROVED
    ) -> AuthorizationAnswer:
        stored = await self._carry_out(request, CallKind.AUTHORIZE, reference, effect, _AUTHORIZATIONS, card)
        if not card.answers:
            raise ProcessorTimedOut("the sandbox never answers for this card")
        return stored.answer

    async def _carry_out(
        self,
        request: Request,
        kind: CallKind,
        reference: str,
        effect: CallEffect,
        answers: msgspec.json.Decoder[T],
        card: TestCard = APPROVED,
    ) -> T:
        key = request.idempotency_key
        call = SandboxCall(
            merchant_id=request.merchant_id,
            kind=kind,
            idempotency_key=key,
            reference=reference,
            effect=effect,
            deadline_at=request.deadline_at,
        )
        try:
            with self._until(request.deadline_at):
                answer, mode = await self._executor.carry_out(call, answers.decode)
                await self._delay(mode, card)
        except TimeoutError:
            raise _timed_out() from None
        return answer

    async def _look_up(self, request: LookUpRequest, kind: CallKind, answers: msgspec.json.Decoder[T]) -> T | None:
        request = self._in_book(request)
        if request.fence:
            await self._executor.fence(request.merchant_id, kind, request.idempotency_key)
        return await self._recorded(request, kind, answers)

    async def _recorded(self, request: LookUpRequest, kind: CallKind, answers: msgspec.json.Decoder[T]) -> T | None:
        text = await self._executor.answer_to(request.merchant_id, kind, request.idempotency_key)
        return None if text is None else answers.decode(text)

    async def _delay(self, mode: Mode, card: TestCard = APPROVED) -> None:
        delay_s = self._slow_s if mode is Mode.SLOW else self._delay_s
        if not card.answers:
            delay_s = self._silence_s
        if delay_s:
            await asyncio.sleep(delay_s)

    def _until(self, deadline_at: datetime) -> Timeout:
        return self._timeouts.within((deadline_at - datetime.now(UTC)).total_seconds())


def _timed_out() -> ProcessorTimedOut:
    return ProcessorTimedOut("no answer before the deadline")
