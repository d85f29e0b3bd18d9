"""The accounts that the fake has, and their keys: `sk_test_NAME`, `sk_live_NAME`, `pk_test_NAME` and `pk_live_NAME`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from random import Random
from typing import Final, Literal

from msgspec import Struct

from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.clock import Clock
from campaigns.fake_stripe.errors import StripeError, invalid
from campaigns.fake_stripe.idempotency import Keys
from campaigns.fake_stripe.record import Record
from campaigns.fake_stripe.webhooks import Sender

Mode = Literal["test", "live"]
_NAME: Final = re.compile(r"[A-Za-z0-9]{3,64}")


class Access(Struct, frozen=True):
    """What a key opens."""

    book: Book
    keys: Keys
    publishable: bool


class Accounts:
    """All accounts, each with a book for test mode and one for live mode."""

    def __init__(self, clock: Clock, record: Record, sender: Sender, seed: int) -> None:
        self._clock = clock
        self._record = record
        self._sender = sender
        self._random = Random(seed)
        self._access: dict[str, Access] = {}
        self._books: dict[tuple[str, Mode], Book] = {}

    def open(self, name: str, country: str = "MX", currency: str = "mxn") -> dict[str, str]:
        """Opens an account, or finds it, and returns its four keys."""
        if not _NAME.fullmatch(name):
            raise invalid("An account's name has 3 to 64 letters and digits.", "name")
        for mode in ("test", "live"):
            if (name, mode) not in self._books:
                self._open(name, "live" if mode == "live" else "test", country, currency)
        test, live = self._books[name, "test"], self._books[name, "live"]
        test.other_mode, live.other_mode = live, test
        return {f"{kind}_{mode}": f"{kind}_{mode}_{name}" for kind in ("sk", "pk") for mode in ("test", "live")}

    def _open(self, name: str, mode: Mode, country: str, currency: str) -> None:
        book = Book(name, self._clock, self._record, self._random, livemode=mode == "live")
        book.country, book.currency = country, currency
        book.announce = lambda event: self._sender.announce(book, event)
        keys = Keys(self._clock)
        self._books[name, mode] = book
        self._access[f"sk_{mode}_{name}"] = Access(book, keys, publishable=False)
        self._access[f"pk_{mode}_{name}"] = Access(book, keys, publishable=True)

    def book(self, name: str, mode: Mode) -> Book:
        """Returns the book of an account in a mode. Raises StripeError."""
        found = self._books.get((name, mode))
        if found is None:
            raise invalid(f"There is no account {name!r} in {mode} mode.", "account")
        return found

    def books(self) -> Iterator[Book]:
        yield from self._books.values()

    def holding(self, kind: str, name: str) -> tuple[Book, Object]:
        """Returns the object of an id in any account, and its book. Raises StripeError."""
        for book in self._books.values():
            if found := book.find(kind, name):
                return book, found
        raise invalid(f"No account has the {kind} {name!r}.", kind)

    def access(self, header: str | None) -> Access:
        """Returns what the header `Authorization` opens. Raises StripeError, 401."""
        key = _key(header)
        if not key:
            raise StripeError(
                401,
                "invalid_request_error",
                "You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth "
                "(e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
            )
        found = self._access.get(key)
        if found is None:
            raise StripeError(401, "invalid_request_error", f"Invalid API Key provided: {_hidden(key)}")
        return found


def _key(header: str | None) -> str:
    scheme, _, value = (header or "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _hidden(key: str) -> str:
    start = "_".join(key.split("_")[:2]) + "_" if key.count("_") >= 2 else ""
    return f"{start}{'*' * max(0, len(key) - len(start) - 4)}{key[-4:]}"
