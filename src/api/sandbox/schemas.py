"""The bodies of the sandbox's helpers: what a developer may do to the world around the merchant.

The rule a stranger would break: nothing of this exists in production.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.fields.types import Id, PositiveNumber

DURATION: Final = r"^P(?=[0-9]|T[0-9])([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,6})?S)?)?$"

Duration = Annotated[str, Meta(max_length=64, examples=["PT72H"], extra_json_schema={"pattern": DURATION})]


Digits = Annotated[str, Meta(min_length=1, max_length=40, extra_json_schema={"pattern": "^[0-9]+$"})]


class MoveClock(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where to move the clock: one of the two."""

    advance_to: Annotated[
        datetime | None, Meta(description="The moment to show. Without an offset: in the merchant's time zone.")
    ] = None
    advance_by: Annotated[
        Duration | None,
        Meta(description="How far to go, in ISO 8601. Years, months and days are those of the merchant's calendar."),
    ] = None


class SetProcessorMode(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the sandbox's processor treats this merchant's next calls."""

    mode: Annotated[
        Literal["OK", "DOWN", "SLOW"],
        Meta(description="OK: as the card says. DOWN: 503 before anything was sent. SLOW: it thinks for some seconds."),
    ]
    times: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="For how many calls; absent: until told otherwise."),
    ] = None


class SendDeposit(Struct, frozen=True, kw_only=True, rename="camel"):
    """Money on its way to a reference."""

    clabe: Annotated[Digits | None, Meta(description="The CLABE that it is sent to; or reference.")] = None
    reference: Annotated[Digits | None, Meta(description="The cash reference that it is paid under.")] = None
    amount: Annotated[PositiveNumber | UnsetType, Meta(description="Required. In minor units (cents).")] = UNSET
    message_id: Annotated[Id | None, Meta(description="The network's own id: the same again is the same deposit.")] = (
        None
    )


class ReportDispute(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payer's bank contests a payment, or has decided."""

    payment_id: Annotated[UUID | None, Meta(description="Required. The service's id of the payment.")] = None
    outcome: Annotated[Literal["OPENED", "WON", "LOST"], Meta(description="LOST without OPENED opens it as well.")]
    amount: Annotated[
        PositiveNumber | UnsetType, Meta(description="In minor units; absent: all that can still be refunded.")
    ] = UNSET


class Settle(Struct, frozen=True, kw_only=True, rename="camel"):
    """A settlement batch of the acquirer."""

    payment_ids: Annotated[
        Annotated[list[UUID], Meta(max_length=100)] | None,
        Meta(description="Which payments; absent: those of the newest hundred orders that can be settled."),
    ] = None
    stage: Annotated[
        Literal["LISTED", "MATCHED", "REFUSED"] | None, Meta(description="Absent: listed, then matched.")
    ] = None
