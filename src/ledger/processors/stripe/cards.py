"""Payments by card: an intent is created under the payment's key, without a card, and confirmed with the token.

Nothing moves before the confirmation, so a creation that fails is `ProcessorUnavailable`. A look-up repeats the
creation under the same key, which returns the same intent, and reads it. With a fence it uses up the key of a
confirmation that has not arrived, and cancels the intent, so that a confirmation which arrives later is refused. Create
an intent only from what the log knows: the look-up has to repeat the request in the same words.

The payer's browser learns an intent's client secret when he returns from his bank, and can confirm the intent with
another card. So an intent whose payer has failed is cancelled before its decline counts. One that was
declined without a payer's action has shown its secret to no browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import uuid4

from msgspec.structs import replace

from ledger.domain.money import ZERO
from ledger.domain.orders.declines import INSTALLMENTS_NOT_AVAILABLE
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, CardReference, Declined
from ledger.domain.orders.statuses import NextAction
from ledger.processors.contract import (
    AuthenticationRequest,
    AuthorizationAnswer,
    AuthorizationRequest,
    CardToken,
    LookUpRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    Request,
)
from ledger.processors.stripe.call_keys import (
    CAPTURE_KEY,
    REMEMBERED,
    SAVED_AS,
    began_at,
    is_of,
    is_remembered,
    key_of,
    made_about,
    metadata_of,
)
from ledger.processors.stripe.declines import declined, refused
from ledger.processors.stripe.forms import Form, Value
from ledger.processors.stripe.intents import (
    CONFIRM,
    CUSTOMERS,
    IDEMPOTENCY_ERROR,
    PAYMENTS,
    SETUPS,
    UNCONFIRMED,
    Intents,
    expanded,
    path_of,
)
from ledger.processors.stripe.objects import Customer, Error, Intent, Plan
from ledger.processors.stripe.transport import Refused, ReplayedFailure
from ledger.processors.stripe.units import from_units, to_units

_CONFIRMATION_TOKEN: Final = "ctoken_"  # noqa: S105 - the prefix of Stripe's ids
_PLAN: Final = "payment_method_options[card][installments]"
_SKEW: Final = timedelta(minutes=5)
_CONTINUED: Final = frozenset({EntryAction.DEVICE_DATA, EntryAction.AUTHENTICATION})
"""The steps that continue a payment whose payer has acted."""


class Cards(Intents):
    """The card calls of one account. All raise ProcessorTimedOut and ProcessorUnavailable."""

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        """Creates an intent and confirms it with the card's token. Its `processor_reference` is the intent's id."""
        if not isinstance(request.card, CardToken):
            raise ProcessorUnavailable("Stripe takes tokens of cards, and this card came as a number")
        try:
            intent = await self._create(
                request, amount=request.amount, currency=request.currency, capture=request.capture
            )
        except ProcessorTimedOut as failure:
            raise ProcessorUnavailable(f"no card was charged: {failure}") from None
        except Refused as failure:
            if failure.error.type == IDEMPOTENCY_ERROR:
                raise ProcessorTimedOut("the payment's key came with other parameters before: look it up") from None
            return refused(failure.error)
        refusal = await self._prepare(intent, request, request.card)
        answer = refusal or await self._confirm(intent, request, request.card)
        return _named(answer, intent.id)

    async def validate_authentication(self, request: AuthenticationRequest) -> AuthorizationAnswer:
        """Asks for the intent whose payer has returned from the bank's page.

        Stripe authorised it, and captured it if the authorisation asked for that, when the payer was authenticated.
        """
        try:
            intent = await self.read(request.authentication_transaction_id, request.deadline_at)
        except Refused as refusal:
            raise ProcessorUnavailable(f"Stripe has no such intent: {refusal}") from None
        return _named(await self._continued(intent, request), intent.id)

    async def look_up(self, request: LookUpRequest) -> AuthorizationAnswer | None:
        """Returns the answer of an authorisation, or of the call that continued one."""
        try:
            intent = await self._find(request)
        except Refused as refusal:
            raise ProcessorTimedOut(f"Stripe refuses the look-up: {refusal}") from None
        if intent is None:
            return None
        if request.step in _CONTINUED:
            return _named(await self._continued(intent, request), intent.id)
        answer = await self._answer(intent, request)
        if answer is None and request.fence and intent.status != "canceled":
            intent = await self.fence_confirmation(intent.id, request)
            answer = await self._answer(intent, request)
            if answer is None and intent.status != "canceled":
                raise ProcessorTimedOut(f"the intent could not be cancelled: it is {intent.status}")
        return None if answer is None else _named(answer, intent.id)

    async def _create(self, request: Request, *, amount: Decimal, currency: str, capture: bool) -> Intent:
        """Creates the intent of a call, or returns the one it has as it was then. Raises Refused.

        An amount of zero verifies the card: that is a setup intent.
        """
        marks = metadata_of(request)
        if capture:
            marks[CAPTURE_KEY] = request.idempotency_key
        form: dict[str, Value] = {"payment_method_types": ["card"], "metadata": marks}
        if amount == 0:
            form |= {"usage": "off_session"}
        else:
            form |= {"amount": to_units(amount, currency), "currency": currency.lower()}
            form |= {"capture_method": "automatic" if capture else "manual"}
        path = SETUPS if amount == 0 else PAYMENTS
        return await self.transport.post(
            path, form, Intent, key=key_of(request, "create"), deadline_at=request.deadline_at
        )

    async def _prepare(self, intent: Intent, request: AuthorizationRequest, card: CardToken) -> Declined | None:
        """Gives the intent what a confirmation cannot bring: a customer, and a card that asks for plans.

        A card is saved for a customer of its own, so that forgetting it forgets nothing else. Which plans of
        instalments the card's bank offers appears only once the intent has its card. Returns a decline if this number
        of months is not among them.
        """
        months = None if card.token.startswith(_CONFIRMATION_TOKEN) else request.installments
        if card.customer is None and request.save_as is None and months is None:
            return None
        form: dict[str, Value] = {"customer": card.customer}
        if request.save_as is not None and path_of(intent.id).startswith(PAYMENTS):
            form |= {"setup_future_usage": "off_session"}
        if months is not None:
            form |= {"payment_method": card.token}
            form |= {"payment_method_options": {"card": {"installments": {"enabled": True}}}}
        try:
            if request.save_as is not None:
                form |= {"customer": await self._customer(request)}
            intent = await self.transport.post(
                path_of(intent.id), form, Intent, key=key_of(request, "prepare"), deadline_at=request.deadline_at
            )
        except ProcessorTimedOut as failure:
            raise ProcessorUnavailable(f"no card was charged: {failure}") from None
        except Refused as refusal:
            now = refusal.error.payment_intent or refusal.error.setup_intent
            if now is not None and now.status == "canceled":
                raise ProcessorUnavailable("the payment was fenced before its card arrived") from None
            if months is not None and (refusal.error.param or "").startswith(_PLAN):
                return _without_plan(months, ())
            return refused(refusal.error)
        available = _months(intent)
        if months is None or months in available:
            return None
        return _without_plan(months, available)

    async def _customer(self, request: AuthorizationRequest) -> str:
        """Creates the customer of a card that is saved, or returns the one it has. Raises Refused."""
        form: Form = {"metadata": {**metadata_of(request), SAVED_AS: str(request.save_as)}}
        key, deadline_at = key_of(request, "customer"), request.deadline_at
        customer = await self.transport.post(CUSTOMERS, form, Customer, key=key, deadline_at=deadline_at)
        return customer.id

    async def _confirm(self, intent: Intent, request: AuthorizationRequest, card: CardToken) -> AuthorizationAnswer:
        """Confirms an intent. From here on money can move, so an answer that does not come is unknown."""
        try:
            confirmed = await self.transport.post(
                f"{path_of(intent.id)}/confirm",
                _confirmation(intent, request, card),
                Intent,
                key=key_of(request, CONFIRM),
                deadline_at=request.deadline_at,
            )
        except Refused as refusal:
            return await self._refused(intent, request, refusal.error)
        answer = await self._answer(confirmed, request)
        if answer is None:
            raise ProcessorTimedOut(f"Stripe answered a confirmation with the status {confirmed.status}")
        return answer

    async def _refused(self, intent: Intent, request: AuthorizationRequest, error: Error) -> AuthorizationAnswer:
        """Returns what a refused confirmation means."""
        if request.installments is not None and (error.param or "").startswith(_PLAN):
            return _without_plan(request.installments, ())
        now = error.payment_intent or error.setup_intent
        if error.type == IDEMPOTENCY_ERROR:
            raise await self.fenced(intent.id, request)
        if now is None and error.type != "card_error":
            now = await self._read_after(intent.id, request)
        if now is not None and now.status == "canceled":
            raise ProcessorUnavailable("the payment was fenced before its confirmation arrived")
        if now is not None and error.type != "card_error":
            answer = await self._answer(now, request)
            if answer is not None:
                return answer
        return refused(error, now)

    async def _read_after(self, intent_id: str, request: Request) -> Intent | None:
        """Reads an intent after its confirmation was sent: if it cannot be read, the outcome is unknown."""
        try:
            return await self.read(intent_id, request.deadline_at)
        except Refused:
            return None
        except ProcessorUnavailable as failure:
            raise ProcessorTimedOut(str(failure)) from None

    async def _answer(self, intent: Intent, request: Request) -> AuthorizationAnswer | None:
        """Returns the answer that an intent has, None if it was never confirmed, or is cancelled."""
        match intent.status:
            case "succeeded" | "requires_capture":
                return approved(intent)
            case "requires_action":
                return await self._required(intent, request)
            case "requires_payment_method" if intent.last_error is not None:
                return declined(intent.last_error, intent)
            case "requires_payment_method" | "requires_confirmation" | "canceled":
                return None
            case _:
                raise ProcessorTimedOut(f"the intent is still {intent.status}")

    async def _continued(self, intent: Intent, request: Request) -> AuthorizationAnswer:
        """Returns the answer of an intent whose payer has acted. One that failed is cancelled first.

        If the payer was quicker with another card, that counts.
        """
        answer = await self._answer(intent, request)
        if intent.status in UNCONFIRMED:
            key = f"withdraw-{uuid4()}"  # Stripe would repeat a refusal under one key, although the intent has changed
            now = await self.cancel(intent.id, request, key)
            if now.status in UNCONFIRMED:
                raise ProcessorTimedOut(f"the intent could not be cancelled: it is {now.status}")
            if now.status != "canceled":
                answer = await self._answer(now, request)
        if answer is not None:
            return answer
        if intent.last_error is not None:
            return declined(intent.last_error, intent)
        return Declined(code="AUTHENTICATION_FAILED", message="The session ended before the payer was authenticated.")

    async def _required(self, intent: Intent, request: Request) -> AuthorizationAnswer | None:
        """Returns where the payer has to go. A payment whose payer has nowhere to go is cancelled and declined."""
        redirect = None if intent.next_action is None else intent.next_action.redirect_to_url
        if redirect is not None and redirect.url is not None:
            return ActionRequired(
                next_action=NextAction.CHALLENGE,
                authentication_transaction_id=intent.id,
                reference_id=intent.id,
                step_up_url=redirect.url,
                processor_reference=intent.id,
            )
        try:
            now = await self.cancel(intent.id, request, "withdraw")
        except ProcessorUnavailable as failure:
            raise ProcessorTimedOut(str(failure)) from None
        if now.status != "canceled":
            return await self._answer(now, request)
        return Declined(code="AUTHENTICATION_REQUIRED", message="The payer has to be authenticated.")

    async def _find(self, request: LookUpRequest) -> Intent | None:
        """Returns the intent of a call, None if there is none. Raises Refused."""
        known = request.authentication_transaction_id or request.processor_reference
        if request.step is not EntryAction.AUTHORIZATION and known is not None:
            return await self.read(known, request.deadline_at)
        if request.amount is None or request.currency is None or not is_remembered(request):
            return await self._listed(request)
        try:
            intent = await self._create(
                request, amount=request.amount, currency=request.currency, capture=request.capture
            )
        except ReplayedFailure:
            return await self._listed(request)
        except Refused as refusal:
            if refusal.error.type != IDEMPOTENCY_ERROR:
                raise
            found = await self._listed(request)  # an earlier release has asked with other metadata
            if found is None:
                raise ProcessorTimedOut("the call's intent is not in Stripe's list yet") from None
            return found
        began = began_at(request)
        if began is not None and datetime.fromtimestamp(intent.created, UTC) - began > REMEMBERED - _SKEW:
            # It is new: the clock of this process is wrong, and Stripe may have forgotten the key.
            return await self._listed(request) or intent
        return await self.read(intent.id, request.deadline_at)  # a stored answer shows the intent as it was at first

    async def _listed(self, request: LookUpRequest) -> Intent | None:
        """Returns the call's oldest intent in the list of those that were made at its time."""
        path, found = SETUPS if request.amount == 0 else PAYMENTS, None
        async for intent in self.transport.list(path, made_about(request), Intent, deadline_at=request.deadline_at):
            if is_of(request, intent.metadata):
                found = intent
        return None if found is None else await self.read(found.id, request.deadline_at)


def approved(intent: Intent) -> Approved:
    """Returns the approval of an intent that is authorised or captured."""
    charge = intent.charge
    details = None if charge is None else charge.payment_method_details
    card = None if details is None else details.card
    secure = None if card is None else card.three_d_secure
    validity_s = None
    if card is not None and card.capture_before is not None and intent.status == "requires_capture":
        validity_s = max(0, card.capture_before - int(datetime.now(UTC).timestamp()))
    return Approved(
        authorized=from_units(intent.amount) if intent.amount else ZERO,
        captured=from_units(intent.amount_received) if intent.capture_method != "manual" else ZERO,
        processor_reference=intent.id,
        authorization_code=None if card is None else card.authorization_code,
        eci=None if secure is None else secure.electronic_commerce_indicator,
        validity_s=validity_s,
        network_transaction_id=None if card is None else card.network_transaction_id,
        saved_card=_saved_card(intent, None if card is None else card.fingerprint),
    )


def _saved_card(intent: Intent, fingerprint: str | None) -> CardReference | None:
    """Returns the reference of the card that an intent has saved for later payments, None if it has saved none.

    Stripe attaches the card to the intent's customer when it approves it
    (docs.stripe.com/payments/save-during-payment, docs.stripe.com/payments/save-and-reuse).
    """
    method = intent.payment_method
    if intent.customer is None or method is None or "off_session" not in {intent.setup_future_usage, intent.usage}:
        return None
    if isinstance(method, str):
        return CardReference(token=method, customer=intent.customer, fingerprint=fingerprint)
    shown = None if method.card is None else method.card.fingerprint
    return CardReference(token=method.id, customer=intent.customer, fingerprint=shown)


def _confirmation(intent: Intent, request: AuthorizationRequest, card: CardToken) -> Form:
    """Returns the form of a confirmation.

    A payer who may not be authenticated, or has no page to return to, is off-session: a bank that asks for it declines.
    """
    is_payment = path_of(intent.id).startswith(PAYMENTS)
    has_payer = request.authenticate and request.return_url is not None
    is_confirmation_token = card.token.startswith(_CONFIRMATION_TOKEN)
    plan: Form | None = None
    if request.installments is not None:
        plan = {"type": "fixed_count", "interval": "month", "count": request.installments}
    return {
        "confirmation_token" if is_confirmation_token else "payment_method": card.token,
        "return_url": request.return_url if has_payer else None,
        "off_session": True if is_payment and not has_payer else None,
        "payment_method_options": None if plan is None else {"card": {"installments": {"plan": plan}}},
        "expand": expanded(path_of(intent.id)),
    }


def _named(answer: AuthorizationAnswer, intent_id: str) -> AuthorizationAnswer:
    """Returns the answer, a decline with the intent's id: by it the merchant finds the payment on Stripe's pages."""
    if isinstance(answer, Declined) and path_of(intent_id).startswith(PAYMENTS):
        return replace(answer, processor_reference=intent_id)
    return answer


def _without_plan(months: int, available: Sequence[int]) -> Declined:
    offered = ", ".join(map(str, available)) or "none"
    return Declined(
        code=INSTALLMENTS_NOT_AVAILABLE,
        message=f"The card's bank does not offer {months} months; it offers {offered}.",
        available_installments=tuple(available),
    )


def _months(intent: Intent) -> Sequence[int]:
    """Returns the numbers of months that the card's bank offers for the intent."""
    options = intent.payment_method_options
    installments = None if options is None or options.card is None else options.card.installments
    plans: Sequence[Plan] = () if installments is None else installments.available_plans or ()
    return sorted({plan.count for plan in plans if plan.type == "fixed_count" and plan.count is not None})
