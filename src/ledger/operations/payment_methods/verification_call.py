"""The calls to the processor that verify a card: an authorisation of zero, and what continues it after its payer acted.

Never send the first call again: the card's CVC is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined
from ledger.domain.orders.terms import AuthenticationSession
from ledger.domain.orders.validity import CHALLENGE_S
from ledger.domain.payment_methods.commands import (
    Challenged,
    NotCarriedOut,
    RecordVerification,
    Refused,
    Unknown,
    VerificationOutcome,
    Verified,
)
from ledger.domain.payment_methods.events import CardVerificationRequested, CardVerificationResumed, PaymentMethodEvent
from ledger.domain.payment_methods.state import SavedMethods, Verification, VerificationCall, stream_of
from ledger.domain.payment_methods.terms import PayerStep
from ledger.domain.payment_methods.verification import decide_verification_outcome
from ledger.domain.streams import PAYMENT_METHODS, Stream
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.kept_cards import keep_card
from ledger.operations.pipeline.accounts import processor_of
from ledger.operations.pipeline.calls import Call, Ended, Failure, LookUp
from ledger.operations.pipeline.payer import payer_named
from ledger.operations.pipeline.processor_metrics import LOOK_UP, VERIFICATION, observed
from ledger.operations.pipeline.processor_requests import NO_SECRETS, SILENT, UNREADABLE, SecretInputs, timed
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors import contract
from ledger.processors.card_data import masked
from ledger.processors.contract import AuthorizationAnswer
from ledger.processors.payer_returns import CardReturn

_log = structlog.get_logger()

CURRENCY: Final = "MXN"
"""The currency of the amount of zero."""

_STEPS: Final = {
    PayerStep.DEVICE_DATA: EntryAction.DEVICE_DATA,
    PayerStep.CHALLENGE: EntryAction.AUTHENTICATION,
    PayerStep.REDIRECT: EntryAction.AUTHENTICATION,
}


class _Prepared(Struct, frozen=True):
    """What a verification's call needs and no event has."""

    processor: contract.Processor
    payer: contract.Payer | None = None
    return_url: str | None = None


class CardVerificationCall(Call, frozen=True, kw_only=True):
    """The call of a verification. `secrets` are what the request brought and no state keeps."""

    verification: Verification
    call: VerificationCall
    secrets: SecretInputs = NO_SECRETS

    stream: ClassVar[Stream[Any]] = PAYMENT_METHODS

    @property
    def stream_id(self) -> UUID:
        return stream_of(self.verification.customer_id)

    @property
    def deadline_at(self) -> datetime:
        return self.call.deadline_at

    async def prepare(self, uow: UnitOfWork) -> _Prepared:  # noqa: ARG002 - it reads nothing of the unit of work
        """Returns the processor, the payer if it makes use of him, and where he comes back to.

        Raises ProcessorUnavailable if the merchant has no such account, a Fault.
        """
        processor = await processor_of(self.ledger, self.merchant_id, self.verification.account)
        if processor is None:
            raise contract.ProcessorUnavailable(f"the merchant has no account {self.verification.account}")
        if self.call.step is not None:
            return _Prepared(processor)
        payer, return_url = None, self.secrets.return_url
        if processor.capabilities.sends_payers_back:
            return_url = self._return_page()
        if processor.capabilities.reads_payers:
            payer = await payer_named(self.ledger, self.merchant_id, self.verification.customer_id, None)
        return _Prepared(processor, payer, return_url)

    def _return_page(self) -> str | None:
        """Returns the page of ours to which the payer comes back, the merchant's own address if there is none."""
        on_to, returns, verification = self.secrets.return_url, self.ledger.payer_returns, self.verification
        if returns is None:
            return on_to
        back = CardReturn(
            merchant_id=self.merchant_id,
            customer_id=verification.customer_id,
            payment_method_id=verification.payment_method_id,
            on_to=on_to,
        )
        return returns.sign(back)

    async def send(self, prepared: _Prepared, left_s: float) -> VerificationOutcome:  # noqa: ARG002 - the request has it
        processor, step = prepared.processor, self.call.step
        request = self._begin(prepared) if step is None else self._resume(processor, step)
        answer = await observed(self.verification.processor, VERIFICATION, request)
        return await self._outcome(timed(answer, processor.capabilities))

    async def _outcome(self, answer: AuthorizationAnswer) -> VerificationOutcome:
        """Returns what an answer means, once the reference of a token's card is stored. A card that its processor has
        not kept is not saved. Raises a Fault.
        """
        verification = self.verification
        if self._save_as is not None and isinstance(answer, Approved):
            if answer.saved_card is None:
                return NotCarriedOut(sent=True)
            customer_id, account = verification.customer_id, verification.account
            await keep_card(self.ledger, self.merchant_id, customer_id, self._save_as, account, answer)
        return _outcome(answer)

    @property
    def _save_as(self) -> UUID | None:
        """The id under which the processor is asked to keep the card, None for a card whose number the vault has."""
        return self.verification.payment_method_id if self.verification.by_token else None

    def _begin(self, prepared: _Prepared) -> Any:
        assert self.secrets.card is not None, "the request brings the card"
        return prepared.processor.authorize(
            contract.AuthorizationRequest(
                amount=ZERO,
                currency=CURRENCY,
                card=self.secrets.card,
                capture=False,
                authenticate=True,
                return_url=prepared.return_url,
                payment_method_id=self.verification.payment_method_id,
                payer=prepared.payer,
                save_as=self._save_as,
                **self._about,
            )
        )

    def _resume(self, processor: contract.Processor, step: PayerStep) -> Any:
        assert self.call.transaction_id is not None, "a session has a name"
        request = contract.AuthenticationRequest(
            authentication_transaction_id=self.call.transaction_id,
            capture=False,
            save_as=self._save_as,
            **self._about,
        )
        if step is PayerStep.DEVICE_DATA:
            return processor.submit_device_data(request)
        return processor.validate_authentication(request)

    @property
    def _about(self) -> dict[str, Any]:
        return {
            "merchant_id": self.merchant_id,
            "idempotency_key": self.call.idempotency_key,
            "deadline_at": self.call.deadline_at,
            "at": self.verification.updated_at,
            "customer_id": self.verification.customer_id,
        }

    def without_answer(self, failure: Failure) -> VerificationOutcome:
        match failure.ended:
            case Ended.NOT_SENT:
                return NotCarriedOut(sent=False)
            case Ended.TIMED_OUT:
                return Unknown(reason=SILENT)
            case Ended.UNREADABLE:
                reason = type(failure.fault).__name__
                _log.error("processor_failed", reason=reason, processor=self.verification.processor)
                return Unknown(reason=UNREADABLE)

    def was_sent(self, outcome: VerificationOutcome) -> bool:
        return outcome != NotCarriedOut(sent=False)

    async def look_up(self, how: LookUp) -> VerificationOutcome | None:
        """Returns the outcome; None while the processor may still carry out the call."""
        processor = await processor_of(self.ledger, self.merchant_id, self.verification.account)
        if processor is None:
            return None
        can_fence, late_s = processor.capabilities.can_fence, processor.capabilities.late_arrival_s
        is_final = how.is_final(self.call.deadline_at, can_fence=can_fence, late_arrival_s=late_s)
        fence = how.fence and is_final and can_fence
        with self.ledger.timeouts.within(how.timeout_s):
            look_up = processor.look_up(self._look_up_request(how, fence=fence))
            found = await observed(self.verification.processor, LOOK_UP, look_up)
        if found is None:
            return NotCarriedOut(sent=True) if is_final else None
        return await self._outcome(timed(found, processor.capabilities))

    def _look_up_request(self, how: LookUp, *, fence: bool) -> contract.LookUpRequest:
        timeout = timedelta(seconds=self.ledger.call_timeouts.processor_timeout_s)
        about = self._about | {"deadline_at": how.deadline_at}
        return contract.LookUpRequest(
            step=EntryAction.AUTHORIZATION if self.call.step is None else _STEPS[self.call.step],
            fence=fence,
            announced_at=self.call.deadline_at - timeout,
            amount=ZERO,
            currency=CURRENCY,
            authentication_transaction_id=self.call.transaction_id,
            save_as=self._save_as,
            **about,
        )

    def record(self, state: SavedMethods, outcome: VerificationOutcome, now: datetime) -> Sequence[PaymentMethodEvent]:
        command = RecordVerification(
            verification_id=self.verification.verification_id,
            idempotency_key=self.call.idempotency_key,
            outcome=outcome,
            at=now,
        )
        return decide_verification_outcome(state, command)

    @property
    def is_under_way(self) -> bool:
        """Whether the call may still be answered, by real time."""
        return not self.call.unknown and datetime.now(UTC) < self.call.deadline_at


def verification_call(
    ledger: Ledger,
    merchant_id: UUID,
    methods: SavedMethods,
    event: CardVerificationRequested | CardVerificationResumed,
    secrets: SecretInputs = NO_SECRETS,
) -> CardVerificationCall | None:
    """Returns the call that an event of these methods announces; None if it has its outcome already."""
    verification = methods.verification(event.verification_id)
    call = None if verification is None else verification.call
    if verification is None or call is None or call.idempotency_key != event.idempotency_key:
        return None
    return CardVerificationCall(
        ledger=ledger, merchant_id=merchant_id, verification=verification, call=call, secrets=secrets
    )


def open_verification_call(
    ledger: Ledger, merchant_id: UUID, methods: SavedMethods, payment_method_id: UUID
) -> CardVerificationCall | None:
    """Returns the call without an outcome that verifies this card, None if there is none."""
    verification = methods.open_verification(payment_method_id)
    if verification is None or verification.call is None:
        return None
    return CardVerificationCall(
        ledger=ledger, merchant_id=merchant_id, verification=verification, call=verification.call
    )


def _outcome(answer: AuthorizationAnswer) -> VerificationOutcome:
    """Returns what a processor's answer means for the card. Raises ValueError for one that means nothing for it."""
    match masked(answer):
        case Approved() as approved:
            return Verified(processor_reference=approved.processor_reference, eci=approved.eci)
        case Declined() as declined:
            by_risk = declined.refused_by is RefusedBy.RISK
            return Refused(
                code=declined.code,
                message=declined.message,
                by_risk=by_risk,
                eci=declined.eci,
                network_advice=declined.network_advice,
            )
        case ActionRequired() as required:
            session = AuthenticationSession(
                transaction_id=required.authentication_transaction_id,
                reference_id=required.reference_id,
                device_data_collection_url=required.device_data_collection_url,
                access_token=required.access_token,
                step_up_url=required.step_up_url,
                three_ds_version=required.three_ds_version,
            )
            return Challenged(
                action=PayerStep(required.next_action),
                session=session,
                session_s=required.session_s or CHALLENGE_S,
                processor_reference=required.processor_reference,
            )
