"""Which operations succeed on an order in each of its sixteen statuses, over HTTP. All others change nothing.

Each operation is sent to a new order in each status. The model predicts the expected 4xx and the order afterwards; the
table here lists the operations that succeed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from property_tests.stateful.machine import Merchant, tender
from property_tests.stateful.model import Expected
from property_tests.stateful.model_order import Order
from property_tests.stateful.service import Service, order_path, service

GOOD = ("card", "good")


class ScriptedMerchant(Merchant):
    """A merchant with scripted requests: every request is compared with the model, and nothing is drawn."""

    orders_max = 1000

    def create_order(self, kind: str, by: tuple[str, str | None] | None = None, *, manual: bool = False) -> Order:
        order = Order(
            f"order/{len(self.model.orders)}", 10_000, kind == "split", by is None, manual, self.merchant.rate
        )
        self._create("create", order, by)
        return order

    def request(self, name: str, order: Order) -> Expected:
        """Sends an operation on this order, compares the answer with the model's, and returns it."""
        expected, path, body = getattr(self, f"_{name.replace(' ', '_')}")(order)
        self._post(name, order.name, expected, order_path(order.name, *path), body)
        return expected

    def pay_part(self, order: Order, by: tuple[str, str | None], amount: int | None = None) -> None:
        body = tender(*by) | ({} if amount is None else {"amount": amount})
        self._post(
            "payments",
            order.name,
            self.model.add_payment(order, *by, amount),
            order_path(order.name, "payments"),
            body,
        )

    def _charge(self, order: Order) -> Any:
        return self.model.charge(order, *GOOD, None), ["charge"], tender(*GOOD)

    def _payments(self, order: Order) -> Any:
        return self.model.add_payment(order, *GOOD, None), ["payments"], tender(*GOOD)

    def _device_data(self, order: Order) -> Any:
        return self.model.device_data(order), ["payer-authentication", "device-data"], {}

    def _validate(self, order: Order) -> Any:
        typed = self._transaction(order)
        expected = self.model.validate(order, fails=False, wrong=typed == "another-transaction")
        return expected, ["payer-authentication", "validate"], {"authenticationTransactionId": typed}

    def _capture(self, order: Order) -> Any:
        return self.model.capture(order, None), ["capture"], {}

    def _cancel(self, order: Order) -> Any:
        return self.model.cancel(order, refund_captured=False), ["cancel"], {}

    def _cancel_with_refunds(self, order: Order) -> Any:
        return self.model.cancel(order, refund_captured=True), ["cancel"], {"refundCaptured": True}

    def _cancel_the_newest_part(self, order: Order) -> Any:
        if not order.payments:
            return Expected(404, "PAYMENT_NOT_FOUND"), ["cancel"], {"paymentId": self.ids[order.name]}
        newest = order.payments[-1]
        return self.model.cancel_part(order, newest), ["cancel"], {"paymentId": self._id(order, newest)}

    def _refund(self, order: Order) -> Any:
        return self.model.refund(order, 10, None), ["refund"], {"amount": 10}

    def _refund_all(self, order: Order) -> Any:
        amount = order.net
        return self.model.refund(order, amount, None), ["refund"], {"amount": amount}


def paid_by(card: str, *then: str, manual: bool = False) -> Callable[[ScriptedMerchant], Order]:
    """Returns a function that creates an order of one tender with this card and carries out further operations on
    it."""

    def made(merchant: ScriptedMerchant) -> Order:
        order = merchant.create_order("single", ("card", card), manual=manual)
        for name in then:
            merchant.request(name, order)
        return order

    return made


def paid_in_part(merchant: ScriptedMerchant) -> Order:
    order = merchant.create_order("split")
    merchant.pay_part(order, GOOD, 3_000)
    return order


PATHS: dict[str, Callable[[ScriptedMerchant], Order]] = {
    "PENDING": lambda merchant: merchant.create_order("single"),
    "PROCESSING": paid_by("silent"),
    "REFERENCE_GENERATED": lambda merchant: merchant.create_order("single", ("spei", None)),
    "AUTHORIZED": paid_by("good", manual=True),
    "PARTIALLY_AUTHORIZED": paid_by("half", manual=True),
    "ACTION_REQUIRED": paid_by("redirect"),
    "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED": paid_by("device, challenge"),
    "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED": paid_by("challenge"),
    "COMPLETED": paid_by("good"),
    "PARTIALLY_PAID": paid_in_part,
    "CANCELLATION_REQUESTED": paid_by("silent", "cancel"),
    "CANCELLED": paid_by("good", "cancel", manual=True),
    "FAILED": paid_by("declined"),
    "REFUND_PROCESSING": paid_by("slow refund", "refund"),
    "PARTIALLY_REFUNDED": paid_by("good", "refund"),
    "REFUNDED": paid_by("good", "refund all"),
}

SUCCEEDS = {
    "PENDING": {"charge", "cancel", "cancel with refunds"},
    "PROCESSING": {"cancel", "cancel with refunds"},
    "REFERENCE_GENERATED": {"charge", "cancel", "cancel with refunds"},
    "AUTHORIZED": {"capture", "cancel", "cancel with refunds"},
    "PARTIALLY_AUTHORIZED": {"capture", "cancel", "cancel with refunds"},
    "ACTION_REQUIRED": {"validate", "cancel", "cancel with refunds"},
    "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED": {"device data", "cancel", "cancel with refunds"},
    "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED": {"validate", "cancel", "cancel with refunds"},
    "COMPLETED": {"refund"},
    "PARTIALLY_PAID": {"charge", "payments", "refund", "cancel with refunds"},
    "CANCELLATION_REQUESTED": {
        "cancel",
        "cancel with refunds",
        "cancel the newest part",
    },  # a cancellation is pending: absorbed
    "CANCELLED": {"cancel the newest part"},  # it is cancelled already: absorbed
    "FAILED": {"charge"},
    "REFUND_PROCESSING": set[str](),
    "PARTIALLY_REFUNDED": {"refund"},
    "REFUNDED": set[str](),
}
OPERATIONS = ["charge", "payments", "device data", "validate", "capture", "cancel", "cancel with refunds",
              "cancel the newest part", "refund"]  # fmt: skip


@pytest.fixture(scope="module")
def running(postgres_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(postgres_url, template_database, tmp_path_factory.mktemp("statuses") / "log") as made:
        yield made


@pytest.fixture(scope="module")
def merchant(running: Service) -> ScriptedMerchant:
    kind = type("Desk", (ScriptedMerchant,), {"service": running, "reached": Counter()})
    made: ScriptedMerchant = kind()
    made.begin(None)
    return made


@pytest.mark.parametrize("status", PATHS)
def test_an_operation_succeeds_in_the_statuses_of_the_table_only(merchant: ScriptedMerchant, status: str) -> None:
    succeeded = set()
    for operation in OPERATIONS:
        order = PATHS[status](merchant)
        assert order.status == status
        if merchant.request(operation, order).status < 300:
            succeeded.add(operation)
    assert succeeded == SUCCEEDS[status]
