"""The deciders of saved payment methods.

Exactly one of a customer's methods is the default, from the first that is saved until the last is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.payment_methods.commands import (
    DeletePaymentMethod,
    EraseMethods,
    MoveSubscription,
    SaveCard,
    UpdatePaymentMethod,
)
from ledger.domain.payment_methods.events import (
    Billing,
    CardVerificationEnded,
    DeletedBecause,
    PaymentMethodAttached,
    PaymentMethodBillingChanged,
    PaymentMethodDeleted,
    PaymentMethodDetached,
    PaymentMethodEvent,
    PaymentMethodExpiryChanged,
    PaymentMethodMadeDefault,
    PaymentMethodRenamed,
    PaymentMethodSaved,
)
from ledger.domain.payment_methods.state import SavedMethod, SavedMethods
from ledger.domain.payment_methods.terms import EndedBecause, VerificationEnd
from ledger.domain.rejections import (
    InvalidField,
    PaymentMethodExpired,
    PaymentMethodInUse,
    PaymentMethodLimitReached,
    PaymentMethodNotFound,
)

METHODS_MAX: Final = 100
"""The most saved methods of a customer, deleted ones not counted. A payment that saves or uses a card reads all methods
of its customer; and a client that saves this many cards under one name is testing stolen cards.
"""


def decide_save(methods: SavedMethods | None, command: SaveCard) -> list[PaymentMethodEvent]:
    """Saves a card, or records the new expiry of one that is saved already; no events if nothing differs.

    Raises PaymentMethodLimitReached for a further card.
    """
    existing = None if methods is None else methods.method(command.payment_method_id)
    if existing is None:
        assert methods is None or not methods.had(command.payment_method_id), "a deleted method's id is not used again"
        if methods is not None and methods.open_verification(command.payment_method_id) is None:
            require_room(methods)
        return [
            PaymentMethodSaved(
                payment_method_id=command.payment_method_id,
                customer_id=command.customer_id,
                card=command.card,
                at=command.at,
                is_default=methods is None or not methods.live,
                billing=command.billing,
                account=command.account,
            )
        ]
    card = existing.card
    assert card is not None, "a live method has a card"
    if (card.exp_month, card.exp_year) == (command.card.exp_month, command.card.exp_year):
        return []
    return [
        PaymentMethodExpiryChanged(
            payment_method_id=command.payment_method_id,
            exp_month=command.card.exp_month,
            exp_year=command.card.exp_year,
            at=command.at,
        )
    ]


def require_room(methods: SavedMethods) -> None:
    """Raises PaymentMethodLimitReached if the customer can have no further card."""
    if methods.places_taken >= METHODS_MAX:
        raise PaymentMethodLimitReached(
            f"The customer has {METHODS_MAX} saved payment methods: delete one that is no longer used, or send the "
            "card without persist."
        )


def decide_update(methods: SavedMethods, command: UpdatePaymentMethod) -> list[PaymentMethodEvent]:
    """Changes billing details, the nickname and the default (contract N59). Returns no events if nothing differs.

    Raises PaymentMethodNotFound, InvalidField for `isDefault`.
    """
    method = _live(methods, command.payment_method_id)
    if command.is_default is False and method.is_default:
        raise InvalidField("isDefault", "must be true: make another payment method the default instead")
    about: dict[str, Any] = {"payment_method_id": method.payment_method_id, "at": command.at}
    events: list[PaymentMethodEvent] = []
    billing: Billing = replace(method.billing, **command.billing)
    if billing != method.billing:
        events.append(PaymentMethodBillingChanged(billing=billing, **about))
    if command.nickname is not UNSET and command.nickname != method.nickname:
        events.append(PaymentMethodRenamed(nickname=command.nickname, **about))
    if command.is_default is True and not method.is_default:
        events.append(PaymentMethodMadeDefault(**about))
    return events


def decide_delete(methods: SavedMethods, command: DeletePaymentMethod) -> list[PaymentMethodEvent]:
    """Deletes a method, or the card that is being verified under this id.

    If the method was the default, the newest of the others becomes the default (contract N58). Raises
    PaymentMethodNotFound, also the second time, and PaymentMethodInUse if a subscription is charged to it.
    """
    verification = methods.open_verification(command.payment_method_id)
    ended: list[PaymentMethodEvent] = []
    if verification is not None:
        because = EndedBecause.DELETED
        ended.append(
            CardVerificationEnded(verification_id=verification.verification_id, because=because, at=command.at)
        )
        if methods.method(command.payment_method_id) is None:
            return ended
    method = _live(methods, command.payment_method_id)
    if method.used_by and not command.force:
        raise PaymentMethodInUse(
            "A subscription is charged to this payment method: give it another one, or wait for its last charge if it "
            "has ended, or repeat the request with force=true."
        )
    deleted = PaymentMethodDeleted(
        payment_method_id=method.payment_method_id, because=DeletedBecause.REQUESTED, at=command.at
    )
    others = [other for other in methods.live if other is not method]
    if not (method.is_default and others):
        return [*ended, deleted]
    return [*ended, deleted, PaymentMethodMadeDefault(payment_method_id=others[-1].payment_method_id, at=command.at)]


def decide_move(methods: SavedMethods, command: MoveSubscription) -> list[PaymentMethodEvent]:
    """Records which method a subscription is charged to. Returns no events if that is recorded already."""
    about: dict[str, Any] = {"subscription_id": command.subscription_id, "at": command.at}
    users = {method.payment_method_id: method.used_by for method in methods.methods}
    events: list[PaymentMethodEvent] = []
    if command.away_from is not None and command.subscription_id in users.get(command.away_from, ()):
        events.append(PaymentMethodDetached(payment_method_id=command.away_from, **about))
    if command.to is not None and command.subscription_id not in users.get(command.to, ()):
        events.append(PaymentMethodAttached(payment_method_id=command.to, **about))
    return events


def decide_erase_methods(methods: SavedMethods | None, command: EraseMethods) -> Sequence[PaymentMethodEvent]:
    """Deletes all methods of an erased customer, and what is shown of cards that were not saved.

    Returns no events if there are none.
    """
    shown = [
        each
        for each in (methods.verifications if methods else ())
        if each.ended not in {VerificationEnd.VERIFIED, VerificationEnd.CUSTOMER_ERASED}
    ]
    ended = [
        CardVerificationEnded(verification_id=each.verification_id, because=EndedBecause.CUSTOMER_ERASED, at=command.at)
        for each in shown
    ]
    return [
        *ended,
        *(
            PaymentMethodDeleted(
                payment_method_id=method.payment_method_id, because=DeletedBecause.CUSTOMER_ERASED, at=command.at
            )
            for method in (methods.live if methods else ())
        ),
    ]


def method_to_charge(methods: SavedMethods | None, payment_method_id: UUID, today: date) -> SavedMethod:
    """Returns the customer's method that a payment names. `today` is in the merchant's time zone.

    A card can be used until the end of its month. Raises PaymentMethodNotFound, PaymentMethodExpired.
    """
    if methods is None:
        raise not_found()
    method = _live(methods, payment_method_id)
    assert method.card is not None, "a live method has a card"
    if (method.card.exp_year, method.card.exp_month) < (today.year, today.month):
        raise PaymentMethodExpired(
            "The saved card has expired: ask the payer for the card's new expiry or for another card.",
            declineCode="CARD_EXPIRED",
            retryable=False,
            advice="FIX_DATA",
        )
    return method


def not_found() -> PaymentMethodNotFound:
    """Returns the rejection of an id under which the customer has no payment method."""
    return PaymentMethodNotFound("The merchant has no saved payment method with this id.")


def _live(methods: SavedMethods, payment_method_id: UUID) -> SavedMethod:
    method = methods.method(payment_method_id)
    if method is None:
        raise not_found()
    return method
