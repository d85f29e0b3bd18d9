"""An account's objects in one mode: they are found by id, listed newest first, and each change makes an event."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar, cast

import msgspec

from campaigns.fake_stripe.clock import Action, Clock
from campaigns.fake_stripe.errors import StripeError, invalid, missing
from campaigns.fake_stripe.record import Movement, Record
from campaigns.fake_stripe.specification import object_violations, version

Object = dict[str, Any]
T = TypeVar("T")
Announce = Callable[[Object], None]

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIXES: Final = {
    "payment_intent": "pi_",
    "setup_intent": "seti_",
    "charge": "ch_",
    "refund": "re_",
    "payment_method": "pm_",
    "confirmation_token": "ctoken_",
    "customer": "cus_",
    "balance_transaction": "txn_",
    "customer_cash_balance_transaction": "ccsbtxn_",
    "dispute": "du_",
    "payout": "po_",
    "event": "evt_",
    "webhook_endpoint": "we_",
    "token": "tok_",
}
_NAMES: Final = {"payment_method": "PaymentMethod", "confirmation_token": "ConfirmationToken"}
"""How Stripe's messages name an object, where it is not its type."""


class Book:
    """The objects of one account in one mode."""

    def __init__(self, account: str, clock: Clock, record: Record, random: Random, *, livemode: bool) -> None:
        self.account = account
        self.livemode = livemode
        self.clock = clock
        self.random = random
        self.country = "MX"
        self.currency = "mxn"
        self.request: tuple[str | None, str | None] = (None, None)
        self.announce: Announce = _ignore
        self.other_mode: Book | None = None
        self.secrets: dict[str, list[str]] = {}
        self.details: dict[str, Object] = {}
        self._record = record
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in PREFIXES}
        self._added: list[tuple[str, str]] | None = None
        self._undoing: list[Action] = []

    @contextmanager
    def attempt(self, *changed: Object) -> Iterator[None]:
        """Undoes what a request did where it is refused: the objects it added go, `changed` are as they were before.

        A declined card (402) is no refusal: the payment shows it. Events are announced once the request is through.
        """
        kept: tuple[Object, ...] = (
            *changed,
            *(self.details[each["id"]] for each in changed if each["id"] in self.details),
        )
        before = [copy.deepcopy(each) for each in kept]
        self._added, self._undoing = [], []
        try:
            yield
        except StripeError as refused:
            if refused.status != 402:
                self._undo(kept, before)
            raise
        except BaseException:
            self._undo(kept, before)
            raise
        finally:
            added, self._added = self._added, None
            for kind, name in added:
                if kind == "event" and (event := self.find(kind, name)):
                    self.announce(event)

    def _undo(self, changed: tuple[Object, ...], before: list[Object]) -> None:
        for now, then in zip(changed, before, strict=True):
            now.clear()
            now.update(then)
        for action in self._undoing:
            action()
        for kind, name in self._added or ():
            self._objects[kind].pop(name, None)

    def id(self, prefix: str, length: int = 24) -> str:
        """Returns a new id."""
        return prefix + "".join(self.random.choices(_ALPHABET, k=length))

    def add(self, kind: str, *, named: str | None = None, **fields: Any) -> Object:
        """Keeps a new object and returns it. It has its id, type, mode and time."""
        made = {"id": named or self.id(PREFIXES[kind]), "object": kind, "created": self.clock.seconds(), **fields}
        if kind not in {"refund", "balance_transaction"}:
            made["livemode"] = self.livemode
        self._objects[kind][made["id"]] = made
        if self._added is not None:
            self._added.append((kind, made["id"]))
        return made

    def find(self, kind: str, name: str) -> Object | None:
        return self._objects[kind].get(name)

    def get(self, kind: str, name: str, param: str, *, status: int = 400) -> Object:
        """Returns the object. Raises StripeError: 404 for an id in the path, 400 for one in a parameter."""
        found = self.find(kind, name)
        if found is None:
            raise missing(_NAMES.get(kind, kind), name, param, status=status, hint=self._hint(kind, name))
        return found

    def _hint(self, kind: str, name: str) -> str:
        if self.other_mode is None or self.other_mode.find(kind, name) is None:
            return ""
        here, there = ("live", "test") if self.livemode else ("test", "live")
        return f"; a similar object exists in {there} mode, but a {here} mode key was used to make this request."

    def when_undone(self, action: Action) -> None:
        """Does this if the request is refused after all."""
        self._undoing.append(action)

    def remove(self, kind: str, name: str) -> None:
        del self._objects[kind][name]

    def all(self, kind: str) -> list[Object]:
        """Returns all objects of a kind, oldest first."""
        return list(self._objects[kind].values())

    def by_id(self, name: str) -> Object | None:
        """Returns the object of any kind that has the id."""
        return next((found for each in self._objects.values() if (found := each.get(name))), None)

    def event(self, kind: str, about: Object, previous: Object | None = None) -> None:
        """Records what happened to an object, as it is now, and announces it."""
        request, key = self.request
        if violations := object_violations(about):
            self._record.write(account=self.account, object=about.get("id", ""), path=kind, violations=violations)
        event = self.add(
            "event",
            type=kind,
            api_version=version(),
            data={"object": copied(about), **({"previous_attributes": previous} if previous else {})},
            pending_webhooks=0,
            request={"id": request, "idempotency_key": key},
        )
        if self._added is None:
            self.announce(event)

    def moved(self, movement: Movement, about: Object, amount: int, *, of: str = "") -> None:
        """Writes that money moved. `of` is the payment that it belongs to."""
        request, key = self.request
        self._record.write(
            account=self.account,
            request=request or "",
            key=key,
            moved=movement,
            object=about["id"],
            about=of,
            amount=amount,
            currency=about["currency"],
            metadata=about.get("metadata") or {},
        )


def copied(value: T) -> T:
    """Returns a copy of an object as JSON has it, many times faster than `deepcopy` is."""
    return cast("T", msgspec.json.decode(msgspec.json.encode(value)))


def _ignore(_: Object) -> None:
    """Announces to nobody, until the account has a sender."""


def merged(before: dict[str, str], changes: Any, param: str = "metadata") -> dict[str, str]:
    """Returns metadata after a change: an empty value removes a key, an empty string in place of all removes all."""
    if changes == "":
        return {}
    found = {key: value for key, value in {**before, **(changes or {})}.items() if value != ""}
    for key, value in found.items():
        if len(key) > 40:
            raise invalid(
                f"Invalid metadata key: {key[:45]}... Keys can be up to 40 characters long.", f"{param}[{key}]"
            )
        if len(value) > 500:
            raise invalid(
                "Metadata values can have up to 500 characters, but you passed in a value that is longer.",
                f"{param}[{key}]",
            )
    if len(found) > 50:
        raise invalid("You can only specify up to 50 metadata keys.", param)
    return found
