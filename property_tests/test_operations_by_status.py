"""What may be done with an order in each of its sixteen statuses, over HTTP, and that everything else changes nothing.

Each operation is asked of a fresh order in each status. The model says which 4xx is due and compares the order before and
after; the table here says, for people, which operations go through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from property_tests.stateful.machine import Merchant, tender
from property_tests.stateful.oracle import Expected
from property_tests.stateful.service import Service, order_path, service
from property_tests.stateful.sums import Order

GOOD = ("card", "good")


class Desk(Merchant):
    """A merchant who knows what it wants: the same comparison after every step, without anything drawn."""

    orders_max = 1000

    def new(self, kind: str, by: tuple[str, str | None] | None = None, *, manual: bool = False) -> Order:
        order = Order(f"order/{len(self.oracle.orders)}", 10_000, kind == "split", by is None, manual, self.shop.rate)
        self._create("create", order, by)
        return order

    def do(self, name: str, order: Order) -> Expected:
        """Ask for an operation of this order; what the model expected of it, and what came."""
        expected, path, body = getattr(self, f"_{name.replace(' ', '_')}")(order)
        self._post(name, order.name, expected, order_path(order.name, *path), body)
        return expected

    def part(self, order: Order, by: tuple[str, str | None], amount: int | None = None) -> None:
        body = tender(*by) | ({} if amount is None else {"amount": amount})
        self._post(
            "payments",
            order.name,
            self.oracle.add_payment(order, *by, amount),
            order_path(order.name, "payments"),
            body,
        )

    def _charge(self, order: Order) -> Any:
        return self.oracle.charge(order, *GOOD, None), ["charge"], tender(*GOOD)

    def _payments(self, order: Order) -> Any:
        return self.oracle.add_payment(order, *GOOD, None), ["payments"], tender(*GOOD)

    def _device_data(self, order: Order) -> Any:
        return self.oracle.device_data(order), ["payer-authentication", "device-data"], {}

    def _validate(self, order: Order) -> Any:
        typed = self._transaction(order)
        expected = self.oracle.validate(order, fails=False, wrong=typed == "somebody-else")
        return expected, ["payer-authentication", "validate"], {"authenticationTransactionId": typed}

    def _capture(self, order: Order) -> Any:
        return self.oracle.capture(order, None), ["capture"], {}

    def _cancel(self, order: Order) -> Any:
        return self.oracle.cancel(order, refund_captured=False), ["cancel"], {}

    def _cancel_with_refunds(self, order: Order) -> Any:
        return self.oracle.cancel(order, refund_captured=True), ["cancel"], {"refundCaptured": True}

    def _cancel_the_newest_part(self, order: Order) -> Any:
        if not order.payments:
            return Expected(404, "PAYMENT_NOT_FOUND"), ["cancel"], {"paymentId": self.ids[order.name]}
        newest = order.payments[-1]
        return self.oracle.cancel_part(order, newest), ["cancel"], {"paymentId": self._id(order, newest)}

    def _refund(self, order: Order) -> Any:
        return self.oracle.refund(order, 10, None), ["refund"], {"amount": 10}

    def _refund_all(self, order: Order) -> Any:
        amount = order.net
        return self.oracle.refund(order, amount, None), ["refund"], {"amount": amount}


def at_once(card: str, *then: str, manual: bool = False) -> Callable[[Desk], Order]:
    """An order of one tender, paid with this card, and what is then done with it."""

    def made(desk: Desk) -> Order:
        order = desk.new("single", ("card", card), manual=manual)
        for name in then:
            desk.do(name, order)
        return order

    return made


def in_part(desk: Desk) -> Order:
    order = desk.new("split")
    desk.part(order, GOOD, 3_000)
    return order


WAYS: dict[str, Callable[[Desk], Order]] = {
    "PENDING": lambda desk: desk.new("single"),
    "PROCESSING": at_once("silent"),
    "REFERENCE_GENERATED": lambda desk: desk.new("single", ("spei", None)),
    "AUTHORIZED": at_once("good", manual=True),
    "PARTIALLY_AUTHORIZED": at_once("half", manual=True),
    "ACTION_REQUIRED": at_once("redirect"),
    "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED": at_once("device, challenge"),
    "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED": at_once("challenge"),
    "COMPLETED": at_once("good"),
    "PARTIALLY_PAID": in_part,
    "CANCELLATION_REQUESTED": at_once("silent", "cancel"),
    "CANCELLED": at_once("good", "cancel", manual=True),
    "FAILED": at_once("declined"),
    "REFUND_PROCESSING": at_once("slow refund", "refund"),
    "PARTIALLY_REFUNDED": at_once("good", "refund"),
    "REFUNDED": at_once("good", "refund all"),
}

GOES_THROUGH = {
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
    },  # it is being done: the order is shown
    "CANCELLED": {"cancel the newest part"},  # it was done: the order is shown
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
def desk(running: Service) -> Desk:
    kind = type("Desk", (Desk,), {"service": running, "reached": Counter()})
    made: Desk = kind()
    made.begin(None)
    return made


@pytest.mark.parametrize("status", WAYS)
def test_an_operation_goes_through_where_the_table_says_and_changes_nothing_elsewhere(desk: Desk, status: str) -> None:
    went_through = set()
    for operation in OPERATIONS:
        order = WAYS[status](desk)
        assert order.status == status
        if desk.do(operation, order).status < 300:
            went_through.add(operation)
    assert went_through == GOES_THROUGH[status]
