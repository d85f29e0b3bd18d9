"""A request that passed all checks: what a handler of an operation gets."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from campaigns.fake_stripe.books import Book
from campaigns.fake_stripe.forms import Tree


class Call(Struct, frozen=True, kw_only=True):
    """The account's book, the parameters with their types, the names in the path, and the fake's own address."""

    book: Book
    parameters: Tree
    path: dict[str, str]
    address: str
    publishable: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a parameter; one that is unset (an empty value) is `default` too."""
        value = self.parameters.get(name, default)
        return default if value == "" else value
