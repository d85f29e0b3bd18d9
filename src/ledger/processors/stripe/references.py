"""Transfers by SPEI and cash at OXXO: intents that the payer pays elsewhere, and what goes back to the payer.

Every SPEI reference has a Stripe customer of its own, because a CLABE belongs to a customer: so the money of one
reference is never taken for that of another. The customer and the intent are created from what the log knows, so that a
look-up finds them by their keys; what only the request knows comes with a second request.

Sources: docs.stripe.com/payments/bank-transfers/accept-a-payment, docs.stripe.com/payments/customer-balance/refunding,
docs.stripe.com/payments/oxxo.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

from ledger.domain.orders.processor_outcomes import (
    ReferenceAnswer,
    ReferenceCancelled,
    ReferenceIssued,
    ReferenceRefused,
    RefundAnswer,
    RefundRefused,
)
from ledger.domain.orders.terms import MethodType
from ledger.processors.card_data import masked
from ledger.processors.contract import (
    LookUpRequest,
    PayoutRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    ReferenceCancellation,
    ReferenceRequest,
    Request,
)
from ledger.processors.stripe.call_keys import (
    FENCED,
    WHOLE_AMOUNT,
    is_of,
    is_refund_of,
    is_remembered,
    key_of,
    made_about,
    made_since,
    metadata_of,
)
from ledger.processors.stripe.charges import REFUNDS, words
from ledger.processors.stripe.forms import Form, Value
from ledger.processors.stripe.intents import (
    CONFIRM,
    CUSTOMERS,
    IDEMPOTENCY_ERROR,
    PAYMENTS,
    UNCONFIRMED,
    Intents,
    path_of,
)
from ledger.processors.stripe.objects import Customer, Intent, NextAction, Refund
from ledger.processors.stripe.refund_parts import answer_of
from ledger.processors.stripe.transport import Refused, ReplayedFailure
from ledger.processors.stripe.units import from_units, to_units

OXXO_MIN, OXXO_MAX = 1_000, 1_000_000
"""The bounds of a voucher in centavos: 10 to 10,000 pesos. Source: docs.stripe.com/payments/oxxo."""
OXXO_DAYS_MAX: Final = 7
"""Source: docs.stripe.com/payments/oxxo ("from 1 to 7 days")."""

OXXO: Final = "OXXO"
"""The channel of a voucher, which serves the method PAYCASH."""

_MEXICO: Final = ZoneInfo("America/Mexico_City")
_EXPIRES: Final = "ledger_expires"
_NAME_MAX: Final = 256
"""How long the name of a customer may be. Source: `name` of a customer in Stripe's OpenAPI description."""
_THROUGH_INTENT, _FROM_BALANCE = "refund", "refund-balance"
_METHODS: Final = {MethodType.SPEI: "customer_balance", MethodType.PAYCASH: "oxxo"}
_ENDED: Final = frozenset({"succeeded", "canceled"})


class References(Intents):
    """The calls of one account about references. All raise ProcessorTimedOut and ProcessorUnavailable."""

    async def issue_reference(self, request: ReferenceRequest) -> ReferenceAnswer:
        """Creates an intent and confirms it, which gives it its CLABE or its voucher."""
        refusal = _unmet(request)
        if refusal is not None:
            return refusal
        try:
            customer = None
            if request.method is MethodType.SPEI:
                customer = await self._customer(request)
                await self._describe(customer, request)
            intent = await self._create(request, request.method, request.amount, request.currency, customer)
        except ProcessorTimedOut as failure:
            raise ProcessorUnavailable(f"no reference was issued: {failure}") from None
        except Refused as failure:
            return _refused(failure)
        try:
            confirmed = await self.transport.post(
                f"{path_of(intent.id)}/confirm",
                _confirmation(request),
                Intent,
                key=key_of(request, CONFIRM),
                deadline_at=request.deadline_at,
            )
        except Refused as failure:
            now = failure.error.payment_intent
            if failure.error.type == IDEMPOTENCY_ERROR:
                raise await self.fenced(intent.id, request) from None
            if now is not None and now.status == "canceled":
                raise ProcessorUnavailable("the reference was fenced before its confirmation arrived") from None
            return _refused(failure)
        issued = _issued(confirmed, request.expires_at)
        if issued is None:
            raise ProcessorTimedOut(f"Stripe's answer has no reference: the intent is {confirmed.status}")
        return issued

    async def cancel_reference(self, request: ReferenceCancellation) -> ReferenceCancelled:
        """Cancels the intent. Money that was quicker, or arrives all the same, is still reported."""
        intent = await self.cancel(request.processor_reference, request, "cancel")
        if intent.status not in _ENDED:
            raise ProcessorTimedOut(f"the intent is still {intent.status}")
        return ReferenceCancelled(processor_reference=intent.id)

    async def pay_out(self, request: PayoutRequest) -> RefundAnswer:
        """Gives money back: what was applied through the intent, and the rest from its customer's balance.

        Stripe sends it to the account that it came from, or asks the payer for one by e-mail: it takes no
        `destination`. An intent that is paid in part gives nothing back. Once it is cancelled, its money is in the
        balance again, and what arrives later stays there: so it is cancelled for the last payout alone.
        """
        intent = await self._read(request.processor_reference, request)
        if intent.customer is None:
            return RefundRefused(code="NOT_REFUNDABLE", message="Stripe gives no cash back that was paid at a store.")
        if request.is_last and intent.status not in _ENDED:
            intent = await self._withdrawn(intent.id, request)
        amount = to_units(request.amount, request.currency)
        try:
            made, others = await self._refunds(intent.id, request)
            through = min(amount, intent.amount_received - others) if made is None else made.amount
            rest = amount - through
            answers, marks = [], {**metadata_of(request), WHOLE_AMOUNT: str(amount)}
            if rest:  # first, because only this part can be refused: then nothing is given back
                form: Form = {"customer": intent.customer, "origin": "customer_balance", "amount": rest}
                form = {**form, "currency": request.currency.lower(), "metadata": marks}
                answers.append(await self._refund(form, request, _FROM_BALANCE))
            if through and made is None:
                form = {"payment_intent": intent.id, "amount": through, "metadata": marks}
                made = await self._refund_through(form, request, has_other_part=bool(answers))
        except Refused as failure:
            if failure.error.type == IDEMPOTENCY_ERROR:
                raise ProcessorTimedOut("an earlier try of this payout had other parts") from None
            code, message = words(failure.error)
            return masked(RefundRefused(code=code, message=message))
        return answer_of(request.amount, [*([] if made is None else [made]), *answers])

    async def look_up_reference(self, request: LookUpRequest) -> ReferenceAnswer | None:
        """Returns the reference of a call; with a fence, an intent that was never confirmed is cancelled."""
        try:
            intent, customer = await self._find(request)
            if intent is None:
                return None
            if intent.status in UNCONFIRMED:
                if not request.fence:
                    return None
                intent = await self.fence_confirmation(intent.id, request)
            if intent.status == "canceled":
                return None  # an intent that could not be cancelled shows no reference, and is looked up again
            issued = _issued(intent, None if customer is None else _expiry(customer))
        except Refused as failure:
            raise ProcessorTimedOut(f"Stripe refuses the look-up: {failure}") from None
        if issued is None:
            raise ProcessorTimedOut(f"the intent is {intent.status} and shows no reference")
        return issued

    async def look_up_cancellation(self, request: LookUpRequest) -> ReferenceCancelled | None:
        intent = await self._read(_reference(request), request)
        return ReferenceCancelled(processor_reference=intent.id) if intent.status == "canceled" else None

    async def look_up_payout(self, request: LookUpRequest) -> RefundAnswer | None:
        """Returns the answer of all refunds of a payout. One that has made only a part of it is not found: it is
        sent again for the rest. With a fence it makes no other part, and has failed when this one is over.
        """
        intent_id = _reference(request)
        found = await self._parts(intent_id, request)
        is_whole = sum(refund.amount for refund in found) == request.amount
        if not is_whole and request.fence:
            if await self._has_arrived(intent_id, request):
                found = await self._parts(intent_id, request)
            is_whole = sum(refund.amount for refund in found) == request.amount
            await self._mark([] if is_whole else found, request)
        if not found or request.amount is None or not (is_whole or request.fence):
            return None
        return answer_of(request.amount, found)

    async def _mark(self, parts: Sequence[Refund], request: LookUpRequest) -> None:
        """Marks the refunds of a payout that was fenced: messages about them end it without the rest."""
        form: Form = {"metadata": {FENCED: request.idempotency_key}}
        for part in parts:
            key = key_of(request, f"mark-{part.id}")
            try:
                await self.transport.post(
                    f"{REFUNDS}/{part.id}", form, Refund, key=key, deadline_at=request.deadline_at
                )
            except Refused as failure:
                raise ProcessorTimedOut(f"the refund {part.id} cannot be marked: {failure}") from None

    async def _has_arrived(self, intent_id: str, request: LookUpRequest) -> bool:
        """Uses the keys of a payout up: it has no effect if it arrives later. Returns whether a part has arrived."""
        fenced = [await self.fence(intent_id, request, step) for step in (_FROM_BALANCE, _THROUGH_INTENT)]
        return not all(fenced)

    async def _parts(self, intent_id: str, request: LookUpRequest) -> list[Refund]:
        """Returns the refunds that a payout has made."""
        try:
            made, _ = await self._refunds(intent_id, request)
            found = [] if made is None else [made]
            if made is None or from_units(made.amount) != request.amount:
                of_balance = self.transport.list(REFUNDS, made_since(request), Refund, deadline_at=request.deadline_at)
                found += [
                    refund
                    async for refund in of_balance
                    if refund.payment_intent is None and is_refund_of(request, refund)
                ]
        except Refused as failure:
            raise ProcessorTimedOut(f"the refunds cannot be listed: {failure}") from None
        return found

    async def _refund_through(self, form: Form, request: PayoutRequest, *, has_other_part: bool) -> Refund:
        """Gives money back through the intent. If the other part of the payout is made, this one has no answer that
        means that nothing was given back. Raises Refused, ProcessorTimedOut, ProcessorUnavailable.
        """
        try:
            return await self._refund(form, request, _THROUGH_INTENT)
        except (Refused, ProcessorUnavailable) as failure:
            if has_other_part:
                raise ProcessorTimedOut(f"only a part of the payout is made: {failure}") from None
            raise

    async def _withdrawn(self, intent_id: str, request: Request) -> Intent:
        """Cancels an intent before money goes back, and returns it: if its payer was quicker, it is paid.

        Raises ProcessorUnavailable if it is not over: no money has moved.
        """
        try:
            intent = await self.cancel(intent_id, request, "withdraw")
        except ProcessorTimedOut as failure:
            raise ProcessorUnavailable(f"nothing was given back: {failure}") from None
        if intent.status not in _ENDED:
            raise ProcessorUnavailable(f"nothing was given back: the intent is still {intent.status}")
        return intent

    async def _create(
        self, request: Request, method: MethodType, amount: Decimal, currency: str, customer: str | None
    ) -> Intent:
        """Creates the intent of a reference, or returns the one it has. Raises Refused."""
        form: Form = {
            "amount": to_units(amount, currency),
            "currency": currency.lower(),
            "customer": customer,
            "payment_method_types": [_METHODS[method]],
            "metadata": metadata_of(request),
        }
        return await self.transport.post(
            PAYMENTS, form, Intent, key=key_of(request, "create"), deadline_at=request.deadline_at
        )

    async def _customer(self, request: Request) -> str:
        """Creates the customer of a reference, or returns the one it has. Raises Refused."""
        form: Form = {"metadata": metadata_of(request)}
        key = key_of(request, "customer")
        customer = await self.transport.post(CUSTOMERS, form, Customer, key=key, deadline_at=request.deadline_at)
        return customer.id

    async def _describe(self, customer: str, request: ReferenceRequest) -> None:
        """Gives the customer the payer's name and e-mail, where Stripe asks for an account if money goes back."""
        payer = request.payer
        form: Form = {
            "name": None if payer is None or payer.name is None else payer.name[:_NAME_MAX],
            "email": None if payer is None else payer.email,
            "metadata": {_EXPIRES: request.expires_at.isoformat()},
        }
        await self.transport.post(
            f"{CUSTOMERS}/{customer}", form, Customer, key=key_of(request, "payer"), deadline_at=request.deadline_at
        )

    async def _find(self, request: LookUpRequest) -> tuple[Intent | None, Customer | None]:
        """Returns the intent of a reference and its customer, as they are now. Raises Refused."""
        deadline_at, intent = request.deadline_at, None
        if is_remembered(request) and request.amount is not None and request.currency is not None:
            try:
                customer_id = await self._customer(request) if request.method is MethodType.SPEI else None
                made = await self._create(request, request.method, request.amount, request.currency, customer_id)
                intent = await self.read(made.id, deadline_at)
            except ReplayedFailure:
                intent = await self._listed(request)
        else:
            intent = await self._listed(request)
        if intent is None or intent.customer is None:
            return intent, None
        path = f"{CUSTOMERS}/{intent.customer}"
        return intent, await self.transport.get(path, {}, Customer, deadline_at=deadline_at)

    async def _listed(self, request: LookUpRequest) -> Intent | None:
        """Returns the call's oldest intent in the list of those that were made at its time."""
        found = None
        async for intent in self.transport.list(PAYMENTS, made_about(request), Intent, deadline_at=request.deadline_at):
            if is_of(request, intent.metadata):
                found = intent
        return found

    async def _read(self, intent_id: str, request: Request) -> Intent:
        try:
            return await self.read(intent_id, request.deadline_at)
        except Refused as refusal:
            raise ProcessorTimedOut(f"the intent cannot be read: {refusal}") from None

    async def _refunds(self, intent_id: str, request: Request) -> tuple[Refund | None, int]:
        """Returns the refund that this call has made of an intent, and the sum of all others. Raises Refused."""
        made, others = None, 0
        async for refund in self.transport.list(
            REFUNDS, {"payment_intent": intent_id}, Refund, deadline_at=request.deadline_at
        ):
            if is_refund_of(request, refund):
                made = refund
            elif refund.status not in {"failed", "canceled"}:
                others += refund.amount
        return made, others

    async def _refund(self, form: Form, request: PayoutRequest, step: str) -> Refund:
        key = key_of(request, step)
        return await self.transport.post(REFUNDS, form, Refund, key=key, deadline_at=request.deadline_at)


def voucher_days(request: ReferenceRequest) -> int:
    """Returns for how many days a voucher is valid: it expires at 23:59 of its last day in Mexico City.

    `expires_at` is of the merchant's clock, so only its distance from the request counts.
    """
    now = datetime.now(UTC)
    until = now + (request.expires_at - (request.at or now))
    days = (until.astimezone(_MEXICO).date() - now.astimezone(_MEXICO).date()) // timedelta(days=1)
    return min(max(days, 1), OXXO_DAYS_MAX)


def _unmet(request: ReferenceRequest) -> ReferenceRefused | None:
    """Returns the refusal of a reference that Stripe cannot issue."""
    if request.method not in _METHODS:
        return ReferenceRefused(code="METHOD_NOT_ENABLED", message="Stripe issues CLABEs and OXXO vouchers only.")
    payer = request.payer
    if request.method is MethodType.PAYCASH and (payer is None or not payer.name or not payer.email):
        return ReferenceRefused(code="PAYER_REQUIRED", message="An OXXO voucher needs the payer's name and e-mail.")
    return None


def _confirmation(request: ReferenceRequest) -> Form:
    """Returns the form that gives an intent its CLABE or its voucher."""
    method = _METHODS[request.method]
    payer, address = request.payer, None if request.payer is None else request.payer.address
    billing: dict[str, Value] = {}
    if payer is not None:
        billing = {"name": payer.name, "email": payer.email, "phone": payer.phone}
    if address is not None:
        billing["address"] = {
            "line1": address.address,
            "city": address.city,
            "state": address.state,
            "postal_code": address.postal_code,
            "country": address.country,
        }
    options: Form = {"expires_after_days": voucher_days(request)}
    if request.method is MethodType.SPEI:
        options = {"funding_type": "bank_transfer", "bank_transfer": {"type": "mx_bank_transfer"}}
    return {
        "payment_method_data": {"type": method, "billing_details": billing},
        "payment_method_options": {method: options},
    }


def _issued(intent: Intent, expires_at: datetime | None) -> ReferenceIssued | None:
    """Returns the reference that an intent shows its payer, None if it shows none."""
    action = intent.next_action
    if intent.status != "requires_action" or action is None:
        return None
    voucher = action.oxxo_display_details
    if voucher is not None and voucher.number is not None and voucher.expires_after is not None:
        return ReferenceIssued(
            reference=voucher.number,
            processor_reference=intent.id,
            expires_at=datetime.fromtimestamp(voucher.expires_after, UTC),
            channel=OXXO,
            voucher_url=voucher.hosted_voucher_url,
            expires_by_real_time=True,
        )
    clabe = _clabe(action)
    if clabe is None or expires_at is None:
        return None
    return ReferenceIssued(reference=clabe, processor_reference=intent.id, expires_at=expires_at, clabe=clabe)


def _clabe(action: NextAction) -> str | None:
    transfer = action.display_bank_transfer_instructions
    addresses = [] if transfer is None else transfer.financial_addresses
    return next((address.spei.clabe for address in addresses if address.spei is not None), None)


def _expiry(customer: Customer) -> datetime | None:
    """Returns the expiry that the payer was shown, as the call has written it to the customer."""
    try:
        return datetime.fromisoformat(customer.metadata.get(_EXPIRES, ""))
    except ValueError:
        return None


def _refused(failure: Refused) -> ReferenceRefused:
    code, message = words(failure.error)
    return masked(ReferenceRefused(code=code, message=message))


def _reference(request: LookUpRequest) -> str:
    if request.processor_reference is None:
        raise ProcessorTimedOut("the log has no intent of this payment")
    return request.processor_reference
