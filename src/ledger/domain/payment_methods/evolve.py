"""The fold of a customer's saved payment methods: all of them after one more event."""

from __future__ import annotations

from typing import Any, assert_never
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.payment_methods.events import (
    Billing,
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
from ledger.domain.payment_methods.evolve_verification import VerificationEvent, evolve_verification
from ledger.domain.payment_methods.state import SavedMethod, SavedMethods


def evolve(methods: SavedMethods | None, event: PaymentMethodEvent) -> SavedMethods:
    """Returns the methods after `event`. `methods` is None before the first card is saved or verified."""
    if isinstance(event, VerificationEvent):
        return evolve_verification(methods, event)
    if isinstance(event, PaymentMethodSaved):
        before = methods or SavedMethods(customer_id=event.customer_id)
        return replace(before, methods=(*before.methods, _saved(event)))
    assert methods is not None, "a stream begins with a card"
    match event:
        case PaymentMethodExpiryChanged():
            return _expiry_changed(methods, event)
        case PaymentMethodBillingChanged():
            changed = {"billing": event.billing or Billing(), "updated_at": event.at}
            return _changed(methods, event.payment_method_id, **changed)
        case PaymentMethodRenamed():
            return _changed(methods, event.payment_method_id, nickname=event.nickname, updated_at=event.at)
        case PaymentMethodMadeDefault():
            return _made_default(methods, event)
        case PaymentMethodDeleted():
            gone = {"card": None, "billing": Billing(), "nickname": None, "is_default": False, "updated_at": event.at}
            return _changed(methods, event.payment_method_id, **gone)
        case PaymentMethodAttached() | PaymentMethodDetached():
            return _moved(methods, event)
        case _:
            assert_never(event)


def _saved(event: PaymentMethodSaved) -> SavedMethod:
    return SavedMethod(
        payment_method_id=event.payment_method_id,
        customer_id=event.customer_id,
        created_at=event.at,
        updated_at=event.at,
        card=event.card,
        billing=event.billing or Billing(),
        is_default=event.is_default,
        account=event.account,
    )


def _expiry_changed(methods: SavedMethods, event: PaymentMethodExpiryChanged) -> SavedMethods:
    method = methods.method(event.payment_method_id)
    assert method is not None, "only a live method is renewed"
    assert method.card is not None, "a live method has a card"
    card = replace(method.card, exp_month=event.exp_month, exp_year=event.exp_year)
    return _changed(methods, event.payment_method_id, card=card, updated_at=event.at)


def _made_default(methods: SavedMethods, event: PaymentMethodMadeDefault) -> SavedMethods:
    """Returns the methods with one default; the time of the method that was it before stays."""
    moved = tuple(replace(method, is_default=False) if method.is_default else method for method in methods.methods)
    after = replace(methods, methods=moved)
    return _changed(after, event.payment_method_id, is_default=True, updated_at=event.at)


def _moved(methods: SavedMethods, event: PaymentMethodAttached | PaymentMethodDetached) -> SavedMethods:
    """Returns the methods after a subscription began or ceased to be charged to one; its `updated_at` stays."""
    id_ = event.payment_method_id
    users = next(method.used_by for method in methods.methods if method.payment_method_id == id_)
    others = tuple(user for user in users if user != event.subscription_id)
    is_new = isinstance(event, PaymentMethodAttached)
    return _changed(methods, id_, used_by=(*others, event.subscription_id) if is_new else others)


def _changed(methods: SavedMethods, payment_method_id: UUID, **changes: Any) -> SavedMethods:
    all_ = methods.methods
    n = next(n for n in reversed(range(len(all_))) if all_[n].payment_method_id == payment_method_id)
    return replace(methods, methods=(*all_[:n], replace(all_[n], **changes), *all_[n + 1 :]))
