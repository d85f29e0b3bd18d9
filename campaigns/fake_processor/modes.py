"""The ways in which a processor fails, and what a call and its effect look like in the processor's own file.

A mode combines two independent things: whether and when a call takes effect, and what its caller gets.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.processor_outcomes import CaptureAnswer, RefundAnswer, VoidAnswer
from ledger.processors.sandbox.authentications import StoredAnswer


class Mode(StrEnum):
    """The treatment of one call."""

    OK = "OK"
    TIMEOUT_BEFORE = "TIMEOUT_BEFORE"
    TIMEOUT_AFTER = "TIMEOUT_AFTER"
    RESET_BEFORE = "RESET_BEFORE"
    RESET_AFTER = "RESET_AFTER"
    ERROR_BEFORE = "ERROR_BEFORE"
    ERROR_AFTER = "ERROR_AFTER"
    LATE = "LATE"
    DUPLICATE = "DUPLICATE"
    GARBAGE = "GARBAGE"
    OTHER_KEY = "OTHER_KEY"


SILENT: Final = frozenset({Mode.TIMEOUT_BEFORE, Mode.TIMEOUT_AFTER, Mode.LATE})
"""The caller gets no answer."""
WITHOUT_EFFECT: Final = frozenset({Mode.TIMEOUT_BEFORE, Mode.RESET_BEFORE, Mode.ERROR_BEFORE})
"""The call has no effect."""

Kind = Literal["AUTHORIZE", "CAPTURE", "VOID", "REFUND"]


class Call(Struct, frozen=True, kw_only=True):
    """A call as it is sent, with the last four digits of its card. `about` is the reference of a charge."""

    kind: Kind
    merchant_id: UUID
    key: str
    amount: Decimal = Decimal(0)
    capture: bool = False
    last4: str = ""
    about: str = ""


class CallAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer as it is sent, with the key of its call. One of the other fields is set."""

    key: str
    authorization: StoredAnswer | None = None
    capture: CaptureAnswer | None = None
    void: VoidAnswer | None = None
    refund: RefundAnswer | None = None


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the processor's own file: a call that arrived and its mode, or money that a call moved."""

    kind: Kind
    merchant_id: UUID
    key: str
    mode: Mode | None = None
    applied: bool = False
    authorized: Decimal = Decimal(0)
    captured: Decimal = Decimal(0)
    refunded: Decimal = Decimal(0)
