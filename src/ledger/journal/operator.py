"""The operator of a command, as the log keeps it beside each event that the command causes."""

from __future__ import annotations

from msgspec import Struct


class Operator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who ran a command of `ledger` that changes something: a name, and why if a reason was given.

    `command` is the command without `ledger`, such as "merchants close".
    """

    name: str
    command: str
    reason: str | None = None
