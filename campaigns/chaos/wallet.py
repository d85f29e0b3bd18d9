"""Clients that save cards and pay by them, and change, list and delete customers and saved methods.

They share what they know of a merchant's saved cards, so that one pays by a card while another deletes it. Their orders
are orders like any other.
"""

from __future__ import annotations

import json
from random import Random
from urllib.parse import quote
from uuid import UUID
from zlib import crc32

from tests.api.payment_methods.flood import card_number

from campaigns.chaos import bodies
from campaigns.chaos.witness import Asked, RecordedAnswer

_CUSTOMERS_AT_ONCE = 3
_MIX = {
    "save": 8, "pay": 12, "change-method": 4, "delete-method": 3, "list-methods": 3,
    "change-customer": 4, "read-customer": 2, "list-customers": 2, "erase-customer": 1,
}  # fmt: skip
DOES = frozenset(_MIX) - {"save", "pay"}
"""What is asked beside orders."""


class Wallet:
    """What the clients of one merchant know of its customers and their saved cards."""

    def __init__(self, seed: int) -> None:
        self._prefix = f"{seed}/w"
        self._made = 0
        self._customers = [self._name() for _ in range(_CUSTOMERS_AT_ONCE)]
        self._methods: list[tuple[str, UUID]] = []

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}{self._made}"

    def next(self, merchant_id: UUID, random: Random, key: str | None) -> Asked:
        """Returns the next request of a client. A customer who is erased is replaced by a new one."""
        (do,) = random.choices(tuple(_MIX), tuple(_MIX.values()))
        customer, method = random.choice(self._customers), None
        if do in {"pay", "change-method", "delete-method"}:
            if not self._methods:
                do = "save"
            else:
                customer, method = random.choice(self._methods[-6:])
        if do == "erase-customer":
            self._customers[self._customers.index(customer)] = self._name()
        if do in {"save", "pay"}:
            name = self._name()
            return Asked(
                do="create",
                merchant_id=merchant_id,
                external_id=name,
                amount=1000 + 2 * (crc32(name.encode()) % 10_000),
                customer=customer,
                number=card_number(random) if method is None else None,
                method=method,
                key=key,
            )
        value = self._name() if do.startswith("change-") else None
        written = do.startswith(("change-", "delete-", "erase-"))
        return Asked(
            do=do, merchant_id=merchant_id, customer=customer, method=method, value=value, key=key if written else None
        )

    def learn(self, asked: Asked, answer: RecordedAnswer) -> None:
        """Keeps what an acknowledged request shows."""
        if asked.number is not None and answer.method_id is not None and asked.customer is not None:
            self._methods.append((asked.customer, answer.method_id))
        elif asked.do in {"delete-method", "erase-customer"}:
            at, gone = (1, asked.method) if asked.method else (0, asked.customer)
            self._methods = [each for each in self._methods if each[at] != gone]


def request(asked: Asked) -> tuple[str, str, bytes | None]:
    """Returns the method, the path and the body of a request of such a client."""
    customer = f"{bodies.CUSTOMERS}/{quote(asked.customer or '', safe='')}"
    match asked.do:
        case "create":
            assert asked.external_id is not None, "an order has a name"
            assert asked.amount is not None, "an order has an amount"
            return "POST", bodies.ORDERS, bodies.by_saved_card(asked)
        case "change-method":
            return "PUT", f"{bodies.METHODS}/{asked.method}", json.dumps({"billingCity": asked.value}).encode()
        case "delete-method":
            return "DELETE", f"{customer}/payment-methods/{asked.method}", None
        case "list-methods":
            return "GET", f"{customer}/payment-methods", None
        case "change-customer":
            return "PUT", customer, json.dumps({"lastName": asked.value}).encode()
        case "erase-customer":
            return "DELETE", customer, None
        case "list-customers":
            return "GET", f"{bodies.CUSTOMERS}?search={quote(asked.customer or '', safe='')}", None
        case _:
            return "GET", customer, None
