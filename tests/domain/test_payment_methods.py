"""Saved payment methods: one default, one method for each card, and what a deletion leaves."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from ledger.domain.fold import fold
from ledger.domain.orders.terms import CardSummary
from ledger.domain.payment_methods.commands import (
    DeletePaymentMethod,
    EraseMethods,
    MoveSubscription,
    SaveCard,
    UpdatePaymentMethod,
)
from ledger.domain.payment_methods.decide import (
    decide_delete,
    decide_erase_methods,
    decide_move,
    decide_save,
    decide_update,
    method_to_charge,
)
from ledger.domain.payment_methods.events import (
    Billing,
    DeletedBecause,
    PaymentMethodBillingChanged,
    PaymentMethodDeleted,
    PaymentMethodExpiryChanged,
    PaymentMethodMadeDefault,
    PaymentMethodRenamed,
    PaymentMethodSaved,
)
from ledger.domain.payment_methods.evolve import evolve
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.rejections import InvalidField, PaymentMethodExpired, PaymentMethodInUse, PaymentMethodNotFound

AT, LATER = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
CUSTOMER, ONE, TWO, THREE = (UUID(int=n) for n in range(1, 5))
CARD = CardSummary(
    bin="424242", last4="4242", brand="VISA", type="CREDIT", country="MX", issuer_bank="BBVA MEXICO", exp_month=12,
    exp_year=2030, cardholder_name="ANA",
)  # fmt: skip


def saved(method: UUID, *, default: bool = False, **card: Any) -> PaymentMethodSaved:
    return PaymentMethodSaved(
        payment_method_id=method, customer_id=CUSTOMER, card=replace(CARD, **card), at=AT, is_default=default
    )


def methods(*events: Any) -> SavedMethods:
    return fold(evolve, None, events)


THREE_SAVED = methods(saved(ONE, default=True), saved(TWO), saved(THREE))


def save(method: UUID, **card: Any) -> SaveCard:
    return SaveCard(payment_method_id=method, customer_id=CUSTOMER, card=replace(CARD, **card), at=LATER)


def test_the_first_card_becomes_the_default_and_the_next_does_not() -> None:
    (first,) = decide_save(None, save(ONE))
    assert first == PaymentMethodSaved(
        payment_method_id=ONE, customer_id=CUSTOMER, card=CARD, at=LATER, is_default=True
    )
    assert [method.is_default for method in THREE_SAVED.live] == [True, False, False]
    (second,) = decide_save(methods(first), save(TWO))
    assert second.is_default is False


def test_the_same_card_again_is_the_same_method_with_the_new_expiry() -> None:
    assert decide_save(THREE_SAVED, save(TWO)) == []
    changed = decide_save(THREE_SAVED, save(TWO, exp_month=1, exp_year=2034))
    assert changed == [PaymentMethodExpiryChanged(payment_method_id=TWO, exp_month=1, exp_year=2034, at=LATER)]
    method = fold(evolve, THREE_SAVED, changed).method(TWO)
    assert method is not None
    assert method.card == replace(CARD, exp_month=1, exp_year=2034)
    assert (method.created_at, method.updated_at) == (AT, LATER)


def test_an_update_changes_only_what_is_given() -> None:
    first = decide_update(
        THREE_SAVED, UpdatePaymentMethod(payment_method_id=TWO, at=LATER, billing={"city": "Puebla", "country": "MX"})
    )
    assert first == [
        PaymentMethodBillingChanged(payment_method_id=TWO, at=LATER, billing=Billing(city="Puebla", country="MX"))
    ]
    after = fold(evolve, THREE_SAVED, first)
    second = decide_update(
        after, UpdatePaymentMethod(payment_method_id=TWO, at=LATER, billing={"city": None}, nickname="Nómina")
    )
    assert second == [
        PaymentMethodBillingChanged(payment_method_id=TWO, at=LATER, billing=Billing(country="MX")),
        PaymentMethodRenamed(payment_method_id=TWO, at=LATER, nickname="Nómina"),
    ]
    after = fold(evolve, after, second)
    repeated = UpdatePaymentMethod(payment_method_id=TWO, at=LATER, billing={"country": "MX"}, nickname="Nómina")
    assert decide_update(after, repeated) == []


def test_exactly_one_method_is_the_default() -> None:
    make = UpdatePaymentMethod(payment_method_id=TWO, at=LATER, billing={"city": None}, is_default=True)
    events = decide_update(THREE_SAVED, make)
    assert events == [PaymentMethodMadeDefault(payment_method_id=TWO, at=LATER)]
    after = fold(evolve, THREE_SAVED, events)
    assert [method.is_default for method in after.live] == [False, True, False]
    with pytest.raises(InvalidField, match="isDefault must be true"):
        decide_update(after, replace(make, is_default=False))
    assert decide_update(after, replace(make, payment_method_id=ONE, is_default=False)) == []


def test_the_newest_of_the_others_follows_a_deleted_default() -> None:
    deleted = PaymentMethodDeleted(payment_method_id=ONE, because=DeletedBecause.REQUESTED, at=LATER)
    events = decide_delete(THREE_SAVED, DeletePaymentMethod(payment_method_id=ONE, at=LATER))
    assert events == [deleted, PaymentMethodMadeDefault(payment_method_id=THREE, at=LATER)]
    after = fold(evolve, THREE_SAVED, events)
    assert [(method.payment_method_id, method.is_default) for method in after.live] == [(TWO, False), (THREE, True)]
    gone = after.methods[0]
    assert (gone.card, gone.billing, gone.nickname, after.had(ONE)) == (None, Billing(), None, True)
    with pytest.raises(PaymentMethodNotFound):
        decide_delete(after, DeletePaymentMethod(payment_method_id=ONE, at=LATER))
    with pytest.raises(PaymentMethodNotFound):
        decide_update(after, UpdatePaymentMethod(payment_method_id=ONE, at=LATER, billing={"city": "x"}))


def test_the_last_method_leaves_no_default() -> None:
    one = methods(saved(ONE, default=True))
    events = decide_delete(one, DeletePaymentMethod(payment_method_id=ONE, at=LATER))
    assert len(events) == 1
    assert fold(evolve, one, events).live == []
    assert decide_save(fold(evolve, one, events), save(TWO))[0].is_default is True


def test_a_method_that_pays_a_live_subscription_is_deleted_only_by_force() -> None:
    """Contract N58."""
    command = DeletePaymentMethod(payment_method_id=TWO, at=LATER)
    used = fold(evolve, THREE_SAVED, decide_move(THREE_SAVED, move(to=TWO)))
    with pytest.raises(PaymentMethodInUse):
        decide_delete(used, command)
    deleted = fold(evolve, used, decide_delete(used, replace(command, force=True)))
    assert deleted.subscriptions == [UUID(int=9)]
    moved = fold(evolve, used, decide_move(used, move(away_from=TWO, to=ONE)))
    assert len(decide_delete(moved, command)) == 1
    assert moved.subscriptions == [UUID(int=9)]


def test_a_subscription_is_moved_to_a_method_once() -> None:
    used = fold(evolve, THREE_SAVED, decide_move(THREE_SAVED, move(to=TWO)))
    assert decide_move(used, move(to=TWO)) == []
    gone = fold(evolve, used, decide_move(used, move(away_from=TWO)))
    assert decide_move(gone, move(away_from=TWO)) == []
    assert gone == THREE_SAVED


def move(**changes: UUID) -> MoveSubscription:
    return MoveSubscription(subscription_id=UUID(int=9), at=LATER, **changes)


def test_an_erasure_deletes_every_method() -> None:
    events = decide_erase_methods(THREE_SAVED, EraseMethods(at=LATER))
    assert {event.payment_method_id for event in events} == {ONE, TWO, THREE}
    after = fold(evolve, THREE_SAVED, events)
    assert after.live == []
    assert decide_erase_methods(after, EraseMethods(at=LATER)) == []
    assert decide_erase_methods(None, EraseMethods(at=LATER)) == []


@pytest.mark.parametrize(
    ("today", "works"), [(date(2030, 12, 31), True), (date(2031, 1, 1), False), (date(2029, 1, 1), True)]
)
def test_a_card_can_be_used_until_the_end_of_its_month(today: date, works: bool) -> None:
    if works:
        assert method_to_charge(THREE_SAVED, TWO, today).payment_method_id == TWO
        return
    with pytest.raises(PaymentMethodExpired) as refused:
        method_to_charge(THREE_SAVED, TWO, today)
    assert refused.value.facts == {"declineCode": "CARD_EXPIRED", "retryable": False, "advice": "FIX_DATA"}


def test_only_a_live_method_of_the_customer_can_be_charged() -> None:
    for known in (None, THREE_SAVED):
        with pytest.raises(PaymentMethodNotFound):
            method_to_charge(known, UUID(int=77), date(2026, 1, 1))
