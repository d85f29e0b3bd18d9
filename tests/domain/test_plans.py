"""The plan of subscriptions: its creation, its changes, what is fixed once it is used, and its end."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace
from tests.domain.builders import NOON
from tests.domain.scenario import given

from ledger.domain.orders.terms import Tax
from ledger.domain.plans.commands import ArchivePlan, ChangePlan, CreatePlan, UsePlan
from ledger.domain.plans.decide import decide_create
from ledger.domain.plans.events import (
    PlanArchived,
    PlanCreated,
    PlanDetailsChanged,
    PlanFirstUsed,
    PlanMetadataChanged,
    PlanTermsChanged,
)
from ledger.domain.plans.evolve import evolve
from ledger.domain.plans.terms import PERIODS_MAX, Interval, OnRetriesExhausted, PlanStatus, PlanTerms
from ledger.domain.rejections import DuplicateExternalId, InvalidField, PlanInUse, PlanNotFound

LATER = NOON + timedelta(hours=1)
PLAN, SUBSCRIPTION = UUID(int=81), UUID(int=82)
TERMS = PlanTerms(amount=Decimal(38900), currency="MXN", interval=Interval.MONTH)
MONTHLY = PlanCreated(
    plan_id=PLAN,
    name="Café del mes",
    terms=TERMS,
    at=NOON,
    external_id="cafe",
    description="Un kilo",
    metadata=Raw(b'{"a":1}'),
)
USED = PlanFirstUsed(plan_id=PLAN, subscription_id=SUBSCRIPTION, at=NOON)
ARCHIVED = PlanArchived(plan_id=PLAN, at=NOON)


def creating(**fields: Any) -> CreatePlan:
    return CreatePlan(plan_id=PLAN, at=LATER, **{"name": "Café", "terms": TERMS, **fields})


def test_a_plan_is_created_with_the_defaults_of_the_contract():
    plan = given().when(creating()).then(PlanCreated(plan_id=PLAN, name="Café", terms=TERMS, at=LATER))
    assert (plan.status, plan.used, plan.metadata, plan.external_id) == (PlanStatus.ACTIVE, False, None, None)
    terms = plan.terms
    assert (terms.interval_count, terms.trial_period_days, terms.expiry_count) == (1, 0, None)
    assert (terms.max_retries, terms.retry_delay_hours) == (4, 48)
    assert terms.on_retries_exhausted is OnRetriesExhausted.UNPAID


def test_the_keys_and_taxes_of_invoices_can_change_also_of_a_used_plan():
    taxes = (Tax(type="IVA", rate=Decimal("0.08"), factor="Tasa", withholding=False),)
    new = (
        given()
        .when(creating(product_key="50201706", unit_key="KGM"))
        .then(PlanCreated(plan_id=PLAN, name="Café", terms=TERMS, at=LATER, product_key="50201706", unit_key="KGM"))
    )
    assert (new.product_key, new.unit_key, new.taxes) == ("50201706", "KGM", None)
    changed = (
        given(MONTHLY, USED)
        .when(ChangePlan(at=LATER, product_key="50201706", taxes=taxes))
        .then(PlanDetailsChanged(plan_id=PLAN, at=LATER, product_key="50201706", taxes=taxes))
    )
    assert (changed.product_key, changed.unit_key, changed.taxes, changed.name) == (
        "50201706",
        None,
        taxes,
        "Café del mes",
    )


def test_another_plan_with_the_external_id_is_refused():
    other = evolve(None, replace(MONTHLY, plan_id=UUID(int=83)))
    with pytest.raises(DuplicateExternalId) as refused:
        decide_create(other, creating(external_id="cafe"))
    assert refused.value.facts == {"field": "externalId"}


@pytest.mark.parametrize("interval", list(Interval))
def test_a_period_has_at_most_three_years(interval: Interval):
    terms = replace(TERMS, interval=interval, interval_count=PERIODS_MAX[interval])
    given().when(creating(terms=terms)).then_events()
    longer = replace(terms, interval_count=terms.interval_count + 1)
    given().when(creating(terms=longer)).then_rejected(InvalidField, field="intervalCount")


def test_a_change_records_what_differs_and_nothing_else():
    given(MONTHLY).when(ChangePlan(at=LATER, name="Café del mes", terms={"max_retries": 4})).then()
    plan = (
        given(MONTHLY)
        .when(ChangePlan(at=LATER, description=None, metadata=None, terms={"amount": Decimal(1), "expiry_count": 6}))
        .then(
            PlanDetailsChanged(plan_id=PLAN, at=LATER, description=None),
            PlanTermsChanged(plan_id=PLAN, at=LATER, terms=replace(TERMS, amount=Decimal(1), expiry_count=6)),
            PlanMetadataChanged(plan_id=PLAN, at=LATER, metadata=UNSET),
        )
    )
    assert (plan.name, plan.description, plan.metadata, plan.updated_at) == ("Café del mes", None, None, LATER)


def test_a_change_keeps_the_external_id_and_the_bound_of_a_period():
    given(MONTHLY).when(ChangePlan(at=LATER, external_id="cafe")).then()
    given(MONTHLY).when(ChangePlan(at=LATER, external_id="te")).then_rejected(InvalidField, field="externalId")
    given(MONTHLY).when(ChangePlan(at=LATER, terms={"interval_count": 37})).then_rejected(
        InvalidField, field="intervalCount"
    )


@pytest.mark.parametrize(
    ("field", "terms"),
    [
        ("amount", {"amount": Decimal(1)}),
        ("currency", {"currency": "USD"}),
        ("interval", {"interval": Interval.WEEK}),
        ("intervalCount", {"interval_count": 2}),
    ],
)
def test_what_a_used_plan_charges_is_fixed(field: str, terms: dict[str, Any]):
    given(MONTHLY).when(ChangePlan(at=LATER, terms=terms)).then_events()
    given(MONTHLY, USED).when(ChangePlan(at=LATER, terms=terms)).then_rejected(PlanInUse, field=field)


def test_the_rest_of_a_used_plan_can_change():
    fixed = {"amount": TERMS.amount, "currency": "MXN", "interval": Interval.MONTH, "interval_count": 1}
    given(MONTHLY, USED).when(ChangePlan(at=LATER, name="Té", terms=fixed | {"trial_period_days": 7})).then(
        PlanDetailsChanged(plan_id=PLAN, at=LATER, name="Té"),
        PlanTermsChanged(plan_id=PLAN, at=LATER, terms=replace(TERMS, trial_period_days=7)),
    )


def test_the_first_use_is_recorded_once():
    use = UsePlan(subscription_id=SUBSCRIPTION, at=LATER)
    plan = given(MONTHLY).when(use).then(PlanFirstUsed(plan_id=PLAN, subscription_id=SUBSCRIPTION, at=LATER))
    assert plan.used
    assert plan.updated_at == NOON, "the merchant has changed nothing"
    given(MONTHLY, USED).when(replace(use, subscription_id=UUID(int=84))).then()


def test_an_archived_plan_takes_no_subscription_but_can_be_changed():
    plan = given(MONTHLY, USED).when(ArchivePlan(at=LATER)).then(PlanArchived(plan_id=PLAN, at=LATER))
    assert plan.status is PlanStatus.ARCHIVED
    given(MONTHLY, ARCHIVED).when(UsePlan(subscription_id=SUBSCRIPTION, at=LATER)).then_rejected(PlanNotFound)
    given(MONTHLY, USED, ARCHIVED).when(UsePlan(subscription_id=SUBSCRIPTION, at=LATER)).then_rejected(PlanNotFound)
    given(MONTHLY, ARCHIVED).when(ChangePlan(at=LATER, name="Antes")).then_events()
