"""The calls to payment processors: what an order's events announce, and what the recovery looks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.orders.decide.outcomes import Outcome, decide_outcome, outcome_command
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated
from ledger.domain.orders.events import OrderEvent, PaymentAuthorized, PaymentCancelled
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import (
    ActionRequired,
    Approved,
    NotFound,
    NotSent,
    ReferenceIssued,
    Unanswered,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import PaymentMethodNotFound
from ledger.domain.streams import ORDERS, Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.kept_cards import keep_card, references_of, saved_with
from ledger.operations.pipeline.accounts import count_answer, count_failure, processor_of
from ledger.operations.pipeline.calls import Call, Ended, Failure, LookUp, Withheld
from ledger.operations.pipeline.payer import payer_of
from ledger.operations.pipeline.processor_metrics import LOOK_UP, OPERATIONS, WITHDRAWAL, observed
from ledger.operations.pipeline.processor_requests import (
    NO_SECRETS,
    SILENT,
    UNREADABLE,
    Asking,
    SecretInputs,
    look_up_call,
    not_sent,
    save_as,
    send_request,
    timed,
)
from ledger.operations.pipeline.repeat_call import repeat_call
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.processors import contract
from ledger.processors.card_data import masked
from ledger.processors.payer_returns import PayerReturn
from ledger.processors.saved_card import SavedCard
from ledger.telemetry.metrics import REPEATED

_log = structlog.get_logger()

_OPENING: Final = frozenset({EntryAction.AUTHORIZATION, EntryAction.REFERENCE})
"""The steps whose requests name the payer."""


class _Prepared(Struct, frozen=True):
    """What a call to a processor needs and no event has."""

    processor: contract.Processor
    secrets: SecretInputs


class ProcessorCall(Call, frozen=True, kw_only=True):
    """The call of an intent. `order` has it as open; `secrets` are what the request brought and no state keeps."""

    order: Order
    intent: Intent
    secrets: SecretInputs = NO_SECRETS

    stream: ClassVar[Stream[Any]] = ORDERS

    @property
    def stream_id(self) -> UUID:
        return self.order.terms.order_id

    @property
    def deadline_at(self) -> datetime:
        return self.intent.deadline_at

    @property
    def payment(self) -> Payment:
        assert self.intent.payment_id is not None, "an intent is a payment's"
        return self.order.payment(self.intent.payment_id)

    async def prepare(self, uow: UnitOfWork) -> _Prepared:  # noqa: ARG002 - it reads nothing of the unit of work
        """Returns the processor and what the call needs: the number of its saved card from the vault, and its payer.

        Raises Withheld if the card was deleted meanwhile, ProcessorUnavailable if the vault cannot open it or if the
        payment has no account, a Fault.
        """
        processor = await processor_of(self.ledger, self.merchant_id, self.payment.account)
        if processor is None:
            raise contract.ProcessorUnavailable(f"the merchant has no account {self.payment.account}")
        secrets = await self._with_card()
        if self.intent.action is EntryAction.AUTHORIZATION and processor.capabilities.sends_payers_back:
            secrets = replace(secrets, return_url=self._return_page())
        if self.intent.action in _OPENING and processor.capabilities.reads_payers:
            secrets = replace(secrets, payer=await payer_of(self.ledger, self.merchant_id, self.order, self.payment))
        return _Prepared(processor, secrets)

    def _return_page(self) -> str | None:
        """Returns the page to which the payer comes back, None if no payer is there.

        A saved card is charged without its payer, unless the merchant gave an address to return to.
        """
        on_to, returns = self.secrets.return_url, self.ledger.payer_returns
        if returns is None or (on_to is None and self.secrets.saved_card is not None):
            return on_to
        if self.payment.started.virtual_terminal:
            return None
        back = PayerReturn(
            merchant_id=self.merchant_id, order_id=self.stream_id, payment_id=self.payment.payment_id, on_to=on_to
        )
        return returns.sign(back)

    async def _with_card(self) -> SecretInputs:
        saved = self.secrets.saved_card
        if saved is None or self.intent.action is not EntryAction.AUTHORIZATION:
            return self.secrets
        if saved.is_kept:
            return replace(self.secrets, card=await self._kept(saved))
        assert self.ledger.vault is not None, "a saved card was found, so there is a vault"
        try:
            number = await self.ledger.vault.open(self.merchant_id, saved.payment_method_id, self.payment.payment_id)
        except Exception as fault:  # whatever it was, nothing was sent
            reason, payment_id = type(fault).__name__, str(self.intent.payment_id)
            _log.error("saved_card_unavailable", reason=reason, payment_id=payment_id)
            raise contract.ProcessorUnavailable("the vault cannot open the saved card") from fault
        if number is None:
            raise _deleted()
        return replace(self.secrets, card=saved.with_number(number))

    async def _kept(self, saved: SavedCard) -> contract.CardToken:
        """Returns the card that the account's processor keeps. Raises Withheld if it is forgotten, a Fault."""
        references = references_of(self.ledger)
        found = await references.find(self.merchant_id, saved.payment_method_id, self.payment.account)
        if found is None:
            raise _deleted()
        return contract.CardToken(token=found.token, customer=found.customer)

    async def send(self, prepared: _Prepared, left_s: float) -> Outcome:  # noqa: ARG002 - the request has it
        processor, opens = prepared.processor, self.intent.action in _OPENING
        request = send_request(processor, self.merchant_id, self.order, self.intent, prepared.secrets)
        try:
            answer = await observed(self.intent.processor, OPERATIONS[self.intent.action], request)
        except contract.ProcessorUnavailable:
            if opens:
                count_failure(self.ledger, *self._asked_about)
            raise
        if opens:
            count_answer(self.ledger, *self._asked_about)
        if isinstance(answer, ActionRequired) and self.payment.started.virtual_terminal:
            return _come_back(UNREADABLE)  # no payer is present, and the request did not allow it
        return timed(answer, processor.capabilities)

    @property
    def _asked_about(self) -> tuple[UUID, str, MethodType]:
        """The merchant, the account and the method for which it counts whether the processor was reached."""
        payment = self.payment
        return self.merchant_id, payment.account, payment.started.method.type

    async def read(self, answer: Outcome) -> Outcome:
        """Returns an answer as it is recorded. The reference of a card that the payment saves is stored here, as no
        event has it; a voucher expires by the clock that dates events and timers. Raises a Fault.
        """
        if isinstance(answer, ReferenceIssued) and answer.expires_by_real_time:
            expires_at = answer.expires_at + self.ledger.clock.ahead(self.merchant_id)
            return replace(answer, expires_at=expires_at, expires_by_real_time=False)
        if isinstance(answer, Approved) and answer.saved_card is not None:
            saved_as, customer_id = save_as(self.payment), self.order.terms.customer_id
            await keep_card(self.ledger, self.merchant_id, customer_id, saved_as, self.payment.account, answer)
            return replace(answer, saved_card=None)
        return answer

    def without_answer(self, failure: Failure) -> Outcome:
        about = {"processor": self.intent.processor}
        match failure.ended:
            case Ended.NOT_SENT if failure.fault is None:
                late_s = round((datetime.now(UTC) - self.intent.deadline_at).total_seconds(), 1)
                _log.warning("processor_call_not_made", call=self.intent.action, late_s=late_s, **about)
                return not_sent(self.order, self.intent)
            case Ended.NOT_SENT:
                return not_sent(self.order, self.intent)
            case Ended.TIMED_OUT:
                return _come_back(SILENT)
            case Ended.UNREADABLE:
                _log.error("processor_failed", reason=type(failure.fault).__name__, **about)
                return _come_back(UNREADABLE)

    def was_sent(self, outcome: Outcome) -> bool:
        return not isinstance(outcome, NotSent) or outcome.until is not None  # it will be sent

    async def look_up(self, how: LookUp) -> Outcome | None:
        """Returns the outcome; NotFound once the processor can no longer apply the call, or has fenced its key."""
        processor = await processor_of(self.ledger, self.merchant_id, self.payment.account)
        if processor is None:
            return None
        can_fence, late_s = processor.capabilities.can_fence, processor.capabilities.late_arrival_s
        is_final = how.is_final(self.intent.deadline_at, can_fence=can_fence, late_arrival_s=late_s)
        fence = how.fence and is_final and can_fence
        asking = Asking(deadline_at=how.deadline_at, announced_at=self._announced_at, fence=fence)
        with self.ledger.timeouts.within(how.timeout_s):
            look_up = look_up_call(processor, self.merchant_id, self.order, self.intent, asking)
            found = await observed(self.intent.processor, LOOK_UP, look_up)
        if found is None:
            return NotFound() if is_final else None
        return await self.read(found)

    @property
    def _announced_at(self) -> datetime:
        """The real time of the first announcement, as the deadline of that call shows it."""
        first = self.intent.first_deadline_at or self.intent.deadline_at
        return first - timedelta(seconds=self.ledger.call_timeouts.processor_timeout_s)

    def record(self, state: Order, outcome: Outcome, now: datetime) -> Sequence[OrderEvent]:
        command = outcome_command(self.intent, masked(outcome), now)
        return decide_outcome(state, command)

    async def plan(self, uow: UnitOfWork, events: Sequence[OrderEvent]) -> Plan:
        """Returns the plan of an outcome: an authorisation also saves the card of its token."""
        change = uow.change(ORDERS, self.stream_id, events)
        if not (self.payment.started.saves_card and any(isinstance(each, PaymentAuthorized) for each in events)):
            return Plan(changes=[change])
        return Plan(changes=[change, *await saved_with(uow, change.after, self.payment)])

    def recorded(self, outcome: Outcome, change: Any) -> bool:
        """Returns whether the call counts as sent: the recovery may have settled it as never arrived meanwhile."""
        if not isinstance(outcome, NotSent) or outcome.until is None:
            return self.was_sent(outcome)
        order: Order = change.after
        return any(
            each.intent is not None and each.intent.idempotency_key == self.intent.idempotency_key
            for each in order.payments
        )

    @property
    def key(self) -> str:
        return self.intent.idempotency_key

    @property
    def cause(self) -> UUID:
        return self.payment.payment_id

    @property
    def about(self) -> Mapping[str, str]:
        return {"order_id": str(self.stream_id), "call": self.intent.action}

    @property
    def over_at(self) -> datetime:
        return self.intent.over_at

    @property
    def is_unsent(self) -> bool:
        return self.intent.unsent

    def is_repeated(self, for_s: float) -> bool:
        until = (self.intent.first_deadline_at or self.intent.deadline_at) + timedelta(seconds=for_s)
        return datetime.now(UTC) < until and can_be_repeated(self.order, self.intent)

    def never_arrived(self, outcome: Outcome) -> bool:
        return isinstance(outcome, NotFound)

    def log_recovered(self, outcome: Outcome) -> None:
        _log.info("payment_recovered", outcome=type(outcome).__name__, **self.about)

    async def repeat(self) -> bool:
        """Sends the call again. Returns False while its payer is being erased."""
        after = await repeat_call(self.ledger, self.merchant_id, self.stream_id, self.intent)
        if self.intent in (payment.intent for payment in after.payments):
            return False
        REPEATED.inc()
        _log.info("call_sent_again", tries=self.intent.tries + 1, **self.about)
        return True


class WithdrawalCall(Call, frozen=True, kw_only=True):
    """Asks a processor to stop showing the reference of a cancelled payment. Later money is recorded as late."""

    order: Order
    payment: Payment
    deadline_at: datetime

    is_recorded: ClassVar[bool] = False

    async def send(self, prepared: None, left_s: float) -> None:  # noqa: ARG002 - the request has it
        processor = await processor_of(self.ledger, self.merchant_id, self.payment.account)
        if processor is None:
            raise contract.ProcessorUnavailable(f"the merchant has no account {self.payment.account}")
        assert self.payment.processor_reference is not None, "an issued reference has a name"
        request = contract.ReferenceCancellation(
            merchant_id=self.merchant_id,
            idempotency_key=f"{self.payment.payment_id}:withdrawal",
            deadline_at=self.deadline_at,
            at=self.order.updated_at,
            order_id=self.order.terms.order_id,
            payment_id=self.payment.payment_id,
            processor_reference=self.payment.processor_reference,
        )
        await observed(self.payment.processor, WITHDRAWAL, processor.cancel_reference(request))

    def without_answer(self, failure: Failure) -> None:
        reason = type(failure.fault).__name__
        _log.warning("reference_not_withdrawn", processor=self.payment.processor, reason=reason)


def processor_call(
    ledger: Ledger, merchant_id: UUID, order: Order, event: Any, secrets: SecretInputs
) -> ProcessorCall | None:
    """Returns the call that an event of this order announces; None if a later event has given its outcome already."""
    intent = order.payment(event.payment_id).intent
    if intent is None or intent.idempotency_key != event.idempotency_key:
        return None
    return ProcessorCall(ledger=ledger, merchant_id=merchant_id, order=order, intent=intent, secrets=secrets)


def withdrawal_call(
    ledger: Ledger, merchant_id: UUID, order: Order, event: PaymentCancelled, _: SecretInputs
) -> WithdrawalCall | None:
    """Returns the call that withdraws the reference of a cancelled payment, if it has one."""
    payment = order.payment(event.payment_id)
    if payment.reference is None or payment.processor_reference is None:
        return None
    return WithdrawalCall(
        ledger=ledger, merchant_id=merchant_id, order=order, payment=payment, deadline_at=ledger.call_deadline()
    )


def _deleted() -> Withheld:
    return Withheld(PaymentMethodNotFound("The saved payment method was deleted; nothing was charged."))


def _come_back(reason: str) -> Unanswered:
    """Returns the outcome of a call that came back now, so that the recovery does not wait for its deadline."""
    return Unanswered(reason=reason, came_back_at=datetime.now(UTC))
