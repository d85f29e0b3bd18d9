"""The calls of the comparison: what a merchant does with cards, one scenario after another, and what it does wrong.

A step's path and parameters name earlier answers: `{held.id}` is the id of the answer to the step `held`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

_CARD = {"amount": "25000", "currency": "usd", "payment_method_types[]": "card"}


class Step(Struct, frozen=True, kw_only=True):
    """A call, and the name under which later steps refer to its answer."""

    name: str
    method: str
    path: str
    parameters: dict[str, str]
    key: str | None = None


class Scenario:
    """Collects the steps of one scenario. Its names and keys begin with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[Step] = []

    def post(
        self, path: str, parameters: dict[str, str] | None = None, *, name: str = "", key: str | None = None
    ) -> None:
        self._add("POST", path, parameters, name, f"{self.name}-{key}" if key else None)

    def get(self, path: str, parameters: dict[str, str] | None = None, *, name: str = "") -> None:
        self._add("GET", path, parameters, name, None)

    def card(self, token: str, name: str = "card") -> None:
        """Makes a payment method of a test card's token."""
        self.post("/v1/payment_methods", {"type": "card", "card[token]": token}, name=name)

    def _add(self, method: str, path: str, parameters: dict[str, str] | None, name: str, key: str | None) -> None:
        label = name or f"{self.name}{len(self.steps)}"
        self.steps.append(Step(name=label, method=method, path=path, parameters=parameters or {}, key=key))


DECLINES = (
    "tok_visa_chargeDeclined",
    "tok_visa_chargeDeclinedInsufficientFunds",
    "tok_visa_chargeDeclinedLostCard",
    "tok_visa_chargeDeclinedStolenCard",
    "tok_chargeDeclinedExpiredCard",
    "tok_chargeDeclinedIncorrectCvc",
    "tok_chargeDeclinedProcessingError",
)
CARDS = ("tok_visa", "tok_visa_debit", "tok_mastercard", "tok_amex", "tok_discover")
_WRONG_CREATIONS: tuple[dict[str, str], ...] = (
    {"currency": "usd"},
    {"amount": "100"},
    {"amount": "ten", "currency": "usd"},
    {"amount": "-5", "currency": "usd"},
    {"amount": "10", "currency": "usd"},
    {"amount": "9999999999", "currency": "usd"},
    {"amount": "1000", "currency": "zzz"},
    {"amount": "1000", "currency": "usd", "colour": "red"},
    {"amount": "1000", "currency": "usd", "capture_method": "soon"},
    {"amount": "1000", "currency": "usd", "customer": "cus_none"},
    {"amount": "1000", "currency": "usd", "payment_method": "pm_none"},
    {"amount": "1000", "currency": "usd", "payment_method_types[]": "card", "confirm": "true"},
    {"amount": "1000", "currency": "usd", "metadata": "flat"},
    {"amount": "1000", "currency": "usd", "confirm": "perhaps"},
    {"amount": "1000", "currency": "usd", "description": ""},
    {"amount": "1000", "currency": "usd", "off_session": "true"},
    {"amount": "1000", "currency": "usd", "return_url": "https://example.com/back"},
    {"amount": "1000", "currency": "usd", "expand[]": "colour"},
)


def scenarios() -> Iterator[Scenario]:
    """Yields all scenarios."""
    yield from map(_declined, DECLINES)
    yield from map(_paid, CARDS)
    yield _captured_in_part()
    yield _captured_too_much()
    yield _cancelled()
    yield _late_cancel()
    yield _refunded()
    yield _refunded_too_much()
    yield _keys()
    yield _customers()
    yield _kept_cards()
    yield _lists()
    yield _wrong_creations()
    yield _unknown()
    yield _metadata()
    yield _updates()


def _declined(token: str) -> Scenario:
    it = Scenario(token)
    it.card(token)
    it.post("/v1/payment_intents", _CARD, name="made")
    it.post("/v1/payment_intents/{made.id}/confirm", {"payment_method": "{card.id}"})
    it.get("/v1/payment_intents/{made.id}", name="shown")
    it.get("/v1/charges/{shown.latest_charge}")
    it.post("/v1/payment_intents/{made.id}/capture")
    it.post("/v1/payment_intents/{made.id}/cancel")
    return it


def _paid(token: str) -> Scenario:
    it = Scenario(token)
    it.card(token)
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{card.id}", "confirm": "true"}, name="made", key="k")
    it.get("/v1/payment_intents/{made.id}", {"expand[]": "latest_charge"})
    it.get("/v1/payment_methods/{card.id}")
    it.post("/v1/payment_intents/{made.id}/confirm")
    return it


def _captured_in_part() -> Scenario:
    it = Scenario("part")
    it.card("tok_visa")
    it.post("/v1/payment_intents", {**_CARD, "capture_method": "manual"}, name="made")
    it.post("/v1/payment_intents/{made.id}/confirm", {"payment_method": "{card.id}"}, name="held")
    it.get("/v1/charges/{held.latest_charge}")
    it.post("/v1/payment_intents/{made.id}/capture", {"amount_to_capture": "10000"})
    it.get("/v1/charges/{held.latest_charge}", {"expand[]": "balance_transaction"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}", "amount": "4000"})
    it.get("/v1/charges/{held.latest_charge}")
    it.post("/v1/refunds", {"payment_intent": "{made.id}"})
    it.get("/v1/charges/{held.latest_charge}")
    it.get("/v1/refunds", {"payment_intent": "{made.id}"})
    it.post("/v1/payment_intents/{made.id}/capture")
    return it


def _captured_too_much() -> Scenario:
    it = Scenario("much")
    it.card("tok_visa")
    it.post(
        "/v1/payment_intents",
        {**_CARD, "capture_method": "manual", "payment_method": "{card.id}", "confirm": "true"},
        name="made",
    )
    it.post("/v1/payment_intents/{made.id}/capture", {"amount_to_capture": "25001"})
    it.post("/v1/payment_intents/{made.id}/capture", {"amount_to_capture": "0"})
    it.post("/v1/payment_intents/{made.id}/capture", {"amount_to_capture": "all"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}"})
    it.post("/v1/payment_intents/{made.id}/confirm")
    it.post("/v1/payment_intents/{made.id}/capture")
    it.post("/v1/payment_intents/{made.id}/capture")
    return it


def _cancelled() -> Scenario:
    it = Scenario("cancel")
    it.card("tok_visa")
    it.post(
        "/v1/payment_intents",
        {**_CARD, "capture_method": "manual", "payment_method": "{card.id}", "confirm": "true"},
        name="made",
    )
    it.post("/v1/payment_intents/{made.id}/cancel", {"cancellation_reason": "duplicate"})
    it.get("/v1/charges/{made.latest_charge}")
    it.get("/v1/refunds", {"charge": "{made.latest_charge}"})
    it.post("/v1/payment_intents/{made.id}/cancel")
    it.post("/v1/payment_intents/{made.id}/confirm")
    it.post("/v1/payment_intents/{made.id}/capture")
    it.post("/v1/refunds", {"payment_intent": "{made.id}"})
    it.post("/v1/payment_intents", _CARD, name="bare")
    it.post("/v1/payment_intents/{bare.id}/cancel", {"cancellation_reason": "whim"})
    it.post("/v1/payment_intents/{bare.id}/cancel")
    return it


def _late_cancel() -> Scenario:
    it = Scenario("late")
    it.card("tok_visa")
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{card.id}", "confirm": "true"}, name="made")
    it.post("/v1/payment_intents/{made.id}/cancel")
    it.post("/v1/payment_intents/{made.id}", {"amount": "100"})
    it.post("/v1/payment_intents/{made.id}", {"metadata[late]": "yes"})
    return it


def _refunded() -> Scenario:
    it = Scenario("refund")
    it.card("tok_visa")
    settled = {**_CARD, "capture_method": "automatic", "payment_method": "{card.id}", "confirm": "true"}
    it.post("/v1/payment_intents", settled, name="made")
    it.post(
        "/v1/refunds",
        {"payment_intent": "{made.id}", "amount": "5000", "metadata[n]": "1", "reason": "duplicate"},
        name="first",
        key="r",
    )
    it.post(
        "/v1/refunds",
        {"payment_intent": "{made.id}", "amount": "5000", "metadata[n]": "1", "reason": "duplicate"},
        key="r",
    )
    it.get("/v1/refunds/{first.id}", {"expand[]": "balance_transaction"})
    it.post("/v1/refunds/{first.id}", {"metadata[n]": "2"})
    it.post("/v1/refunds", {"charge": "{made.latest_charge}"})
    it.get("/v1/charges/{made.latest_charge}", {"expand[]": "refunds"})
    it.get("/v1/refunds", {"charge": "{made.latest_charge}", "limit": "1"})
    it.post("/v1/refunds/{first.id}/cancel")
    return it


def _refunded_too_much() -> Scenario:
    it = Scenario("refunds")
    it.card("tok_visa")
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{card.id}", "confirm": "true"}, name="made")
    it.post("/v1/refunds", {"payment_intent": "{made.id}", "amount": "25001"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}", "amount": "0"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}", "amount": "-1"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}", "reason": "mood"})
    it.post("/v1/refunds", {"payment_intent": "pi_none"})
    it.post("/v1/refunds", {"charge": "ch_none"})
    it.post("/v1/refunds", {"amount": "5"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}"})
    it.post("/v1/refunds", {"payment_intent": "{made.id}"})
    it.post("/v1/payment_intents", _CARD, name="bare")
    it.post("/v1/refunds", {"payment_intent": "{bare.id}"})
    return it


def _keys() -> Scenario:
    it = Scenario("keys")
    it.post("/v1/payment_intents", _CARD, name="made", key="a")
    it.post("/v1/payment_intents", _CARD, key="a")
    it.post("/v1/payment_intents", {**_CARD, "amount": "26000"}, key="a")
    it.post("/v1/payment_intents/{made.id}/cancel", {}, key="a")
    it.post("/v1/payment_intents", {"amount": "x", "currency": "usd"}, key="b")
    it.post("/v1/payment_intents", _CARD, key="b")
    it.card("tok_visa_chargeDeclined")
    it.post("/v1/payment_intents/{made.id}/confirm", {"payment_method": "{card.id}"}, key="c")
    it.post("/v1/payment_intents/{made.id}/confirm", {"payment_method": "{card.id}"}, key="c")
    it.post("/v1/payment_intents/{made.id}/cancel", key="d")
    it.post("/v1/payment_intents/{made.id}/cancel", key="d")
    it.post("/v1/payment_intents/pi_none/cancel", key="e")
    it.post("/v1/payment_intents/pi_none/cancel", key="e")
    return it


def _customers() -> Scenario:
    it = Scenario("customers")
    it.post("/v1/customers", {"email": "payer@example.com", "name": "Ana", "metadata[k]": "v"}, name="made")
    it.get("/v1/customers/{made.id}")
    it.post("/v1/customers/{made.id}", {"name": "Ana María", "metadata[k]": "", "metadata[l]": "w"})
    it.post("/v1/customers/{made.id}", {"email": ""})
    it.get("/v1/customers/{made.id}/payment_methods")
    it.get("/v1/customers/cus_none")
    it.post("/v1/customers", {"address[line1]": "Reforma 1", "address[country]": "MX"})
    return it


def _kept_cards() -> Scenario:
    it = Scenario("kept")
    it.post("/v1/customers", {"email": "kept@example.com"}, name="made")
    it.card("tok_visa")
    it.post("/v1/payment_methods/{card.id}/attach", {"customer": "{made.id}"})
    it.post("/v1/payment_methods/{card.id}/attach", {"customer": "{made.id}"})
    it.get("/v1/customers/{made.id}/payment_methods", {"type": "card"})
    it.post(
        "/v1/payment_intents",
        {**_CARD, "customer": "{made.id}", "payment_method": "{card.id}", "off_session": "true", "confirm": "true"},
    )
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{card.id}", "confirm": "true"})
    it.post("/v1/payment_methods/{card.id}/detach")
    it.post("/v1/payment_methods/{card.id}/detach")
    it.post("/v1/payment_intents", {**_CARD, "customer": "{made.id}", "payment_method": "{card.id}", "confirm": "true"})
    it.card("tok_mastercard", "second")
    first = {
        **_CARD,
        "customer": "{made.id}",
        "payment_method": "{second.id}",
        "confirm": "true",
        "setup_future_usage": "off_session",
    }
    it.post("/v1/payment_intents", first)
    it.get("/v1/customers/{made.id}/payment_methods")
    it.card("tok_visa", "third")
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{third.id}", "confirm": "true"})
    it.post("/v1/payment_intents", {**_CARD, "payment_method": "{third.id}", "confirm": "true"})
    return it


def _lists() -> Scenario:
    it = Scenario("lists")
    it.post("/v1/customers", {"email": "lists@example.com"}, name="made")
    for number in range(4):
        it.post(
            "/v1/payment_intents", {**_CARD, "customer": "{made.id}", "metadata[n]": str(number)}, name=f"n{number}"
        )
    it.get("/v1/payment_intents", {"customer": "{made.id}"})
    it.get("/v1/payment_intents", {"customer": "{made.id}", "limit": "2"})
    it.get("/v1/payment_intents", {"customer": "{made.id}", "limit": "2", "starting_after": "{n2.id}"})
    it.get("/v1/payment_intents", {"customer": "{made.id}", "limit": "2", "ending_before": "{n0.id}"})
    it.get("/v1/payment_intents", {"customer": "{made.id}", "created[gte]": "1"})
    it.get("/v1/payment_intents", {"customer": "{made.id}", "created[lt]": "1"})
    it.get("/v1/payment_intents", {"limit": "0"})
    it.get("/v1/payment_intents", {"limit": "101"})
    it.get("/v1/payment_intents", {"limit": "few"})
    it.get("/v1/payment_intents", {"starting_after": "pi_none"})
    it.get("/v1/payment_intents", {"colour": "red"})
    it.get("/v1/disputes")
    it.get("/v1/payouts")
    return it


def _wrong_creations() -> Scenario:
    it = Scenario("wrong")
    for parameters in _WRONG_CREATIONS:
        it.post("/v1/payment_intents", parameters)
    return it


def _unknown() -> Scenario:
    it = Scenario("unknown")
    for path in (
        "/v1/payment_intents/pi_none",
        "/v1/charges/ch_none",
        "/v1/refunds/re_none",
        "/v1/payment_methods/pm_none",
        "/v1/disputes/du_none",
        "/v1/payouts/po_none",
        "/v1/balance_transactions/txn_none",
        "/v1/events/evt_none",
        "/v1/moon",
    ):
        it.get(path)
    for action in ("confirm", "capture", "cancel"):
        it.post(f"/v1/payment_intents/pi_none/{action}")
    it.post("/v1/payment_methods", {"type": "card", "card[token]": "tok_none"})
    it.post("/v1/payment_methods", {"type": "moon"})
    it.post("/v1/payment_methods", {"type": "card"})
    it.post("/v1/payment_methods/pm_none/attach", {"customer": "cus_none"})
    return it


def _metadata() -> Scenario:
    it = Scenario("metadata")
    it.post("/v1/payment_intents", {**_CARD, "metadata[a]": "1", "metadata[b]": "2"}, name="made")
    it.post("/v1/payment_intents/{made.id}", {"metadata[a]": "", "metadata[c]": "3"})
    it.post("/v1/payment_intents/{made.id}", {"metadata": ""})
    it.post("/v1/payment_intents/{made.id}", {"metadata[k]": "v" * 501})
    it.post("/v1/payment_intents/{made.id}", {f"metadata[{'k' * 41}]": "v"})
    return it


def _updates() -> Scenario:
    it = Scenario("updates")
    it.post("/v1/payment_intents", _CARD, name="made")
    it.post(
        "/v1/payment_intents/{made.id}", {"amount": "30000", "description": "changed", "receipt_email": "a@example.com"}
    )
    it.card("tok_visa")
    it.post("/v1/payment_intents/{made.id}", {"payment_method": "{card.id}"})
    it.post("/v1/payment_intents/{made.id}/confirm")
    it.post("/v1/payment_intents", {"amount": "1000", "currency": "usd"}, name="automatic")
    it.post("/v1/payment_intents/{automatic.id}/confirm", {"payment_method": "{card.id}"})
    never = {"automatic_payment_methods[enabled]": "true", "automatic_payment_methods[allow_redirects]": "never"}
    it.post("/v1/payment_intents", {"amount": "1000", "currency": "usd", **never}, name="never")
    it.card("tok_visa", "other")
    it.post("/v1/payment_intents/{never.id}/confirm", {"payment_method": "{other.id}"})
    return it
