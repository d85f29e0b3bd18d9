"""Saves a card without a payment: keeps its number, asks the processor whether the card is good, and saves it then.

The number is kept first, and the commit of the intent announces the verification, as with the card of a payment
(`save`). The method is saved by the commit of the outcome. A number whose card was not saved is destroyed after that
commit; `sweep` destroys it if a crash comes in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.call_failures import Unavailable
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.declines import CARD_TOKEN_INVALID, PROCESSOR_TIMEOUT, decline_of_card
from ledger.domain.orders.terms import MethodType
from ledger.domain.payment_methods.commands import ResumeVerification, VerifyCard
from ledger.domain.payment_methods.decide import not_found
from ledger.domain.payment_methods.events import (
    CardVerificationEnded,
    CardVerificationRequested,
    CardVerificationResumed,
    PaymentMethodDeleted,
)
from ledger.domain.payment_methods.state import SavedMethods, Verification, stream_of
from ledger.domain.payment_methods.terms import EndedBecause, PayerStep, VerificationEnd
from ledger.domain.payment_methods.verification import decide_resumption, decide_verification
from ledger.domain.rejections import (
    ChargeRefused,
    ChargeRefusedByRisk,
    MethodNotEnabled,
    PayerAuthenticationFailed,
    Rejected,
)
from ledger.domain.streams import CUSTOMERS, PAYMENT_METHODS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, DeviceDataInput, PaymentInput, ValidateInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import RequestTarget
from ledger.operations.payment_methods.card_tokens import token_field, token_invalid, with_card_of_token
from ledger.operations.payment_methods.kept_cards import method_of_card
from ledger.operations.payment_methods.save import billing_of, keep_number
from ledger.operations.payment_methods.verification_call import CURRENCY
from ledger.operations.pipeline.accounts import card_account, simulated_accounts
from ledger.operations.pipeline.execute_request import execute_request
from ledger.operations.pipeline.execute_stream import answered
from ledger.operations.pipeline.execute_stream import stream_of as stream_of_record
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, IdempotencyKey, Plan, UnitOfWork, in_progress
from ledger.postgres.faults import Fault
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Card, ProcessorUnavailable

_AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
_ANNOUNCING = CardVerificationRequested, CardVerificationResumed
"""The events of which a request waits for the call."""
_REMOVED = EndedBecause.DELETED, EndedBecause.CUSTOMER_ERASED


class CardResult(Struct, frozen=True, kw_only=True):
    """The card after a request: the customer's methods, and the id under which the card is saved or being verified.

    `created` marks a card whose verification the request has begun. `replayed` marks a request that changed nothing
    because its effect already existed. `repeated` marks the answer that this idempotency key received the first time.
    """

    methods: SavedMethods
    payment_method_id: UUID
    created: bool = False
    replayed: bool = False
    repeated: bool = False


async def verify_and_save(
    ledger: Ledger,
    actor: Actor,
    customer: str,
    request: PaymentInput,
    *,
    is_default: bool,
    key: IdempotencyKey | None = None,
) -> CardResult:
    """Verifies the request's card and saves it for the customer whom `customer` names by service id or external id.

    The same card with the same expiry is the same method, and is not verified again. A payer who has to act first
    leaves the verification open. Raises like `execute_request`; CustomerNotFound, MethodNotEnabled,
    PaymentMethodLimitReached, TooManyCardVerifications, RequestInProgress, ChargeRefused, ChargeRefusedByRisk,
    CardTokenInvalid, ProcessorUnavailable.
    """
    return await ledger.complete(_verify(UnitOfWork(ledger, actor, key), customer, request, is_default=is_default))


async def resume_verification(
    ledger: Ledger,
    actor: Actor,
    customer_id: UUID,
    payment_method_id: UUID,
    request: DeviceDataInput | ValidateInput,
    key: IdempotencyKey | None = None,
) -> CardResult:
    """Continues the verification of a card whose payer has sent device data, or has come back from a challenge.

    Raises like `execute_request`; PaymentMethodNotFound, InvalidField, InvalidPaymentMethodState, RequestInProgress,
    PayerAuthenticationFailed, ChargeRefused, ChargeRefusedByRisk, ProcessorUnavailable.
    """
    return await ledger.complete(_resume(UnitOfWork(ledger, actor, key), customer_id, payment_method_id, request))


async def destroy_unused(ledger: Ledger, merchant_id: UUID, customer_id: UUID, payment_method_id: UUID) -> None:
    """Destroys the number of a card that was not saved. If the vault or the log is unreachable, the sweep does it."""
    if ledger.vault is None:
        return
    with suppress(Fault):
        methods, _ = await ledger.journal.load(merchant_id, PAYMENT_METHODS, stream_of(customer_id))
        if methods is not None and methods.had(payment_method_id):
            await ledger.vault.destroy(merchant_id, [payment_method_id])


async def _verify(uow: UnitOfWork, reference: str, request: PaymentInput, *, is_default: bool) -> CardResult:
    ledger, verification_id = uow.ledger, uuid7()
    request = await with_card_of_token(ledger, uow.merchant_id, request, CURRENCY, None)
    by_token = bool(request.card_tokens)
    kept: tuple[UUID, UUID] | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal kept
        if request.card_refusal is not None:
            raise request.card_refusal
        account = await _account(uow, request.card_account)
        processor = account.processor.capabilities.name
        customer = await uow.find(CUSTOMERS, reference)
        customer_id = customer.customer_id
        assert request.card_summary is not None, "a card comes with its summary"
        if isinstance(request.card, Card):
            method_id, methods = await keep_number(uow, customer_id, request.card.number)
            kept = customer_id, method_id
        else:
            method_id, methods = await method_of_card(uow, customer_id, account.name, request.card_fingerprint)
        command = VerifyCard(
            verification_id=verification_id,
            payment_method_id=method_id,
            customer_id=customer_id,
            card=request.card_summary,
            processor=processor,
            account=None if account.name == processor else account.name,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            is_default=is_default,
            billing=billing_of(request.billing_address),
            by_token=by_token,
        )
        events = decide_verification(methods, command)
        uow.creates = any(isinstance(event, CardVerificationRequested) for event in events)
        change = uow.change(PAYMENT_METHODS, stream_of(customer_id), events)
        return Plan(
            changes=[change, uow.change(CUSTOMERS, customer_id, ())],
            target=RequestTarget(payment_id=method_id),
            secrets=SecretInputs(card=request.card, return_url=request.return_url),
        )

    try:
        return await execute_request(uow, attempt, _CardAnswer(resumes=False, token_field=token_field(request)))
    except (Rejected, Unavailable):
        if kept is not None:
            await destroy_unused(ledger, uow.merchant_id, *kept)
        raise


async def _account(uow: UnitOfWork, token_of: str | None) -> ProcessorAccount:
    """Returns the account that verifies the card: the one whose token it is. Raises MethodNotEnabled, a Fault."""
    ledger = uow.ledger
    settings = (await ledger.merchant(uow.merchant_id)).settings
    account = await card_account(ledger, uow.merchant_id, token_of)
    is_kept = ledger.vault is not None if token_of is None else ledger.card_references is not None
    if account is None or not is_kept or MethodType.CARD not in settings.payment_methods:
        raise MethodNotEnabled("Saving cards is not enabled for this merchant.")
    return account


async def _is_simulated(
    uow: UnitOfWork, methods: SavedMethods, payment_method_id: UUID, transaction_id: str | None
) -> bool:
    """Returns whether a sandbox judges the id by its text: one with `fail` is a failed challenge."""
    verification = methods.open_verification(payment_method_id)
    if verification is None or transaction_id is None or "fail" not in transaction_id:
        return False
    return bool(await simulated_accounts(uow.ledger, uow.merchant_id, [verification.account]))


async def _resume(
    uow: UnitOfWork, customer_id: UUID, payment_method_id: UUID, request: DeviceDataInput | ValidateInput
) -> CardResult:
    ledger, key = uow.ledger, str(uuid7())
    transaction_id = request.transaction_id if isinstance(request, ValidateInput) else None

    async def attempt(_: Conflict | None) -> Plan:
        methods = await uow.load(PAYMENT_METHODS, stream_of(customer_id))
        if methods is None:
            raise not_found()
        command = ResumeVerification(
            payment_method_id=payment_method_id,
            steps=(PayerStep.DEVICE_DATA,) if transaction_id is None else (PayerStep.CHALLENGE, PayerStep.REDIRECT),
            idempotency_key=key,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
            reference_id=None if isinstance(request, ValidateInput) else request.reference_id,
            transaction_id=transaction_id,
            is_simulated=await _is_simulated(uow, methods, payment_method_id, transaction_id),
        )
        change = uow.change(PAYMENT_METHODS, stream_of(customer_id), decide_resumption(methods, command))
        return Plan(changes=[change], target=RequestTarget(payment_id=payment_method_id))

    try:
        return await execute_request(uow, attempt, _CardAnswer(resumes=True))
    except (Rejected, Unavailable):
        await destroy_unused(ledger, uow.merchant_id, customer_id, payment_method_id)
        raise


class _CardAnswer:
    """Answers with the card as it is after its verification's call, or with the refusal."""

    when = AnsweredWhen.AFTER_CALLS

    def __init__(self, *, resumes: bool, token_field: str | None = None) -> None:
        self._resumes = resumes
        self._token_field = token_field

    async def after(self, uow: UnitOfWork, plan: Plan) -> CardResult:
        method_id = plan.target.payment_id
        assert method_id is not None, "the request is about a card"
        if uow.nothing_was_sent:
            raise _not_sent()
        methods = await uow.load(PAYMENT_METHODS, plan.stream_id)
        assert methods is not None, "the request has found or made the stream"
        if not any(isinstance(event, _ANNOUNCING) for event in plan.events):
            return CardResult(methods=methods, payment_method_id=method_id, replayed=not plan.events)
        return self._result(uow, methods, method_id)

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> CardResult:
        method_id = record.payment_id
        assert method_id is not None, "the request is about a card"
        if record.answer is not None:
            result = await answered(uow, record, PAYMENT_METHODS)
            if _is_removed(result.state, method_id, result.later):
                raise not_found()
            created = record.answer.created
            return CardResult(methods=result.state, payment_method_id=method_id, created=created, repeated=True)
        methods = await uow.load(PAYMENT_METHODS, stream_of_record(record))
        assert methods is not None, "an accepted request has begun"
        open_one = methods.open_verification(method_id)
        if open_one is not None and open_one.call is not None and not open_one.call.unknown:
            raise in_progress()
        uow.creates = not self._resumes
        return self._result(uow, methods, method_id, repeated=True)

    def _result(self, uow: UnitOfWork, methods: SavedMethods, method_id: UUID, *, repeated: bool = False) -> CardResult:
        """Returns the card that is saved or being verified. Raises the refusal of one that is neither."""
        latest = methods.latest_verification(method_id)
        if latest is not None and latest.ended not in {None, VerificationEnd.VERIFIED}:
            raise self._refusal(latest)
        return CardResult(methods=methods, payment_method_id=method_id, created=uow.creates, repeated=repeated)

    def _refusal(self, verification: Verification) -> Exception:
        """Returns why the card is not saved."""
        if verification.ended is VerificationEnd.NOT_SENT:
            return _not_sent()
        if verification.ended not in {VerificationEnd.DECLINED, VerificationEnd.NOT_FOUND}:
            return not_found()
        code = verification.decline_code or PROCESSOR_TIMEOUT
        if code == CARD_TOKEN_INVALID and self._token_field is not None:
            return token_invalid(self._token_field)
        reason = decline_of_card(code, verification.network_advice)
        if self._resumes and code == _AUTHENTICATION_FAILED:
            return PayerAuthenticationFailed("The payer could not be authenticated: the card is not saved.")
        rejection = ChargeRefusedByRisk if verification.refused_by_risk else ChargeRefused
        return rejection(reason.message, declineCode=reason.code, retryable=reason.retryable, advice=reason.advice)


def _is_removed(answered_with: SavedMethods, method_id: UUID, later: Sequence[object]) -> bool:
    """Returns whether the card of an answer was deleted after it, or its customer erased. A card that was being
    verified has no method to delete: its verification ends.
    """
    ids = {each.verification_id for each in answered_with.verifications if each.payment_method_id == method_id}
    for event in later:
        match event:
            case PaymentMethodDeleted() if event.payment_method_id == method_id:
                return True
            case CardVerificationEnded() if event.verification_id in ids and event.because in _REMOVED:
                return True
    return False


def _not_sent() -> ProcessorUnavailable:
    return ProcessorUnavailable("The payment processor cannot be reached; the card is not saved. Try again later.")
