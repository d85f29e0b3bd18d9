"""The ways in which a processor goes wrong, and what a call and its application look like in the processor's own file.

The rule a stranger would break: a mode says when a call takes effect and what its caller sees, and these are two things.
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
    """How one call is treated."""

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
"""The caller hears nothing."""
WITHOUT_EFFECT: Final = frozenset({Mode.TIMEOUT_BEFORE, Mode.RESET_BEFORE, Mode.ERROR_BEFORE})
"""The call does nothing."""

Kind = Literal["AUTHORIZE", "CAPTURE", "VOID", "REFUND"]


class Call(Struct, frozen=True, kw_only=True):
    """A call as it travels. Of the card only its last four digits; `about` is a charge's reference."""

    kind: Kind
    merchant_id: UUID
    key: str
    amount: Decimal = Decimal(0)
    capture: bool = False
    last4: str = ""
    about: str = ""


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer as it travels, with the key that it is to; one of the others is there."""

    key: str
    authorization: StoredAnswer | None = None
    capture: CaptureAnswer | None = None
    void: VoidAnswer | None = None
    refund: RefundAnswer | None = None


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the processor's own file: a call that arrived and how it is treated, or money that it moved."""

    kind: Kind
    merchant_id: UUID
    key: str
    mode: Mode | None = None
    applied: bool = False
    authorized: Decimal = Decimal(0)
    captured: Decimal = Decimal(0)
    refunded: Decimal = Decimal(0)
