"""`expand[]`: an object in place of its id, along a path such as `data.latest_charge.balance_transaction`."""

from __future__ import annotations

from typing import Any, Final

from campaigns.fake_stripe.books import Book, Object, copied
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.errors import invalid
from campaigns.fake_stripe.lists import page
from campaigns.fake_stripe.transfers import shown_balance

_EXPANDABLE: Final = {
    "payment_intent": {"customer", "latest_charge", "payment_method"},
    "setup_intent": {"customer", "payment_method"},
    "charge": {"balance_transaction", "customer", "failure_balance_transaction", "payment_intent", "refunds"},
    "refund": {"balance_transaction", "charge", "customer", "failure_balance_transaction", "payment_intent"},
    "balance_transaction": {"source"},
    "dispute": {"charge", "payment_intent"},
    "payout": {"balance_transaction", "failure_balance_transaction"},
    "payment_method": {"customer"},
    "customer": {"cash_balance"},
    "customer_cash_balance_transaction": {"customer"},
}
_DEEPEST: Final = 4


def expanded(call: Call, answer: Object) -> Object:
    """Returns a copy of the answer, expanded as the parameters ask. Raises StripeError for what cannot be expanded."""
    found = copied(answer)
    for name in call.get("expand") or []:
        steps = name.split(".")
        if len(steps) - (steps[0] == "data") > _DEEPEST:
            raise invalid(f"You cannot expand more than {_DEEPEST} levels of a property: {name}.", "expand")
        _expand(call, found, steps, name)
    return found


def _expand(call: Call, place: Any, steps: list[str], name: str) -> None:
    if isinstance(place, list):
        for each in place:
            _expand(call, each, steps, name)
        return
    if not steps or place is None:
        return
    step, *rest = steps
    if step == "data" and place.get("object") == "list":
        _expand(call, place["data"], rest, name)
        return
    if step not in _EXPANDABLE.get(place.get("object", ""), ()):
        raise invalid(f"This property cannot be expanded ({name}).", "expand")
    if not isinstance(place.get(step), dict):
        place[step] = _object(call.book, place, step)
    _expand(call, place[step], rest, name)


def _object(book: Book, place: Object, step: str) -> Any:
    if step == "refunds":
        mine = [each for each in book.all("refund") if each["charge"] == place["id"]]
        return copied(page(mine, {}, f"/v1/charges/{place['id']}/refunds"))
    if step == "cash_balance":
        return shown_balance(book, place["id"])
    value = place.get(step)
    return copied(book.by_id(value) or value) if isinstance(value, str) else value
