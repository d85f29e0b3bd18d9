"""Given these events, when this command is decided, then these events follow: the form of the core's tests.

Every command is decided twice. The second time must give no events, or the same rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from tests.domain.builders import resubmit

from ledger.domain.customers import decide as customers
from ledger.domain.customers.commands import ChangeCustomer, CreateCustomer, EraseCustomer, UpsertCustomer
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.merchants import commands as merchant_commands
from ledger.domain.merchants import decide as merchants
from ledger.domain.merchants.evolve import evolve as evolve_merchant
from ledger.domain.orders import commands as order_commands
from ledger.domain.orders.commands import ChargeOrder, CreateOrder, ErasePayer, RecordOutcome
from ledger.domain.orders.decide.authentication import decide_device_data, decide_validation
from ledger.domain.orders.decide.cancellation import (
    decide_cancellation,
    decide_payer_erasure,
    decide_payment_cancellation,
)
from ledger.domain.orders.decide.captures import decide_capture, decide_scheduled_capture
from ledger.domain.orders.decide.disputes_and_settlement import decide_dispute, decide_expiry, decide_settlement
from ledger.domain.orders.decide.outcomes import decide_outcome
from ledger.domain.orders.decide.overpayments import decide_overpayment_refund
from ledger.domain.orders.decide.payments import (
    decide_charge,
    decide_create,
    decide_payment,
    decide_resubmission,
)
from ledger.domain.orders.decide.references import decide_deposit
from ledger.domain.orders.decide.refunds import decide_refund
from ledger.domain.orders.decide.unanswered_calls import decide_repetition
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.domain.orders.timers import decide_reminder, decide_reminder_outcome
from ledger.domain.plans import commands as plan_commands
from ledger.domain.plans import decide as plans
from ledger.domain.plans.evolve import evolve as evolve_plan
from ledger.domain.products import decide as products
from ledger.domain.products.commands import ImportProduct
from ledger.domain.products.evolve import evolve as evolve_product
from ledger.domain.rejections import Rejected


def _create_or_resubmit(order: Any, command: Any) -> Any:
    return decide_create(None, command) if order is None else decide_resubmission(order, resubmit(command))


DECIDERS: dict[type, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    CreateOrder: (_create_or_resubmit, evolve_order),
    ChargeOrder: (decide_charge, evolve_order),
    order_commands.AddPayment: (decide_payment, evolve_order),
    order_commands.SubmitDeviceData: (decide_device_data, evolve_order),
    order_commands.ValidateAuthentication: (decide_validation, evolve_order),
    order_commands.CapturePayment: (decide_capture, evolve_order),
    order_commands.StartScheduledCapture: (decide_scheduled_capture, evolve_order),
    order_commands.CancelPayment: (decide_payment_cancellation, evolve_order),
    order_commands.CancelOrder: (decide_cancellation, evolve_order),
    order_commands.ExpirePayment: (decide_expiry, evolve_order),
    order_commands.RefundOrder: (decide_refund, evolve_order),
    order_commands.RefundOverpayment: (decide_overpayment_refund, evolve_order),
    order_commands.RecordDeposit: (decide_deposit, evolve_order),
    order_commands.RecordDispute: (decide_dispute, evolve_order),
    order_commands.RecordSettlement: (decide_settlement, evolve_order),
    **dict.fromkeys(get_args(RecordOutcome), (decide_outcome, evolve_order)),
    order_commands.RepeatCall: (decide_repetition, evolve_order),
    order_commands.RemindPayer: (decide_reminder, evolve_order),
    order_commands.RecordReminder: (decide_reminder_outcome, evolve_order),
    ErasePayer: (decide_payer_erasure, evolve_order),
    ChangeCustomer: (customers.decide_change, evolve_customer),
    CreateCustomer: (customers.decide_create, evolve_customer),
    EraseCustomer: (customers.decide_erasure, evolve_customer),
    UpsertCustomer: (customers.decide_upsert, evolve_customer),
    ImportProduct: (products.decide_import, evolve_product),
    plan_commands.CreatePlan: (plans.decide_create, evolve_plan),
    plan_commands.ChangePlan: (plans.decide_change, evolve_plan),
    plan_commands.UsePlan: (plans.decide_use, evolve_plan),
    plan_commands.ArchivePlan: (plans.decide_archive, evolve_plan),
    merchant_commands.RegisterMerchant: (merchants.decide_registration, evolve_merchant),
    merchant_commands.RenameMerchant: (merchants.decide_renaming, evolve_merchant),
    merchant_commands.CloseMerchant: (merchants.decide_closing, evolve_merchant),
    merchant_commands.ChangeSettings: (merchants.decide_settings, evolve_merchant),
    merchant_commands.IssueApiKey: (merchants.decide_issue, evolve_merchant),
    merchant_commands.RotateApiKey: (merchants.decide_rotation, evolve_merchant),
    merchant_commands.RevokeApiKey: (merchants.decide_revocation, evolve_merchant),
}


def given(*events: Any) -> Given:
    return Given(events)


class Given:
    def __init__(self, events: tuple[Any, ...]) -> None:
        self._events = events

    def when(self, command: Any) -> When:
        return When(self._events, command)


class When:
    def __init__(self, events: tuple[Any, ...], command: Any) -> None:
        self._decide, self._evolve = DECIDERS[type(command)]
        self._command = command
        self._state: Any = None
        for event in events:
            self._state = self._evolve(self._state, event)

    def then(self, *expected: Any) -> Any:
        """Asserts that exactly these events follow, and returns the state after them."""
        events = self._decide(self._state, self._command)
        assert events == list(expected)
        return self._fold_and_repeat(events)

    def then_events(self) -> list[Any]:
        """Returns the events that follow, for tests that check a part of them."""
        events = self._decide(self._state, self._command)
        self._fold_and_repeat(events)
        return events

    def then_rejected(self, rejection: type[Rejected], **facts: Any) -> None:
        for _ in range(2):
            with pytest.raises(rejection) as refused:
                self._decide(self._state, self._command)
            assert refused.value.facts == facts

    def _fold_and_repeat(self, events: list[Any]) -> Any:
        state = self._state
        for event in events:
            state = self._evolve(state, event)
        assert self._decide(state, self._command) == []
        return state
