"""Warnings: what a request that was carried out may not have meant, by its fields.

Warn only of what follows from the body and from the order's log: a repeated request then gets the same warnings.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from api.response import JSON_TYPE, ApiResponse
from ledger.domain.rejections import sentence


class WarningCode(StrEnum):
    """What is remarkable about a field, for programs. Permanent."""

    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    DUE_DATE_IN_PAST = "DUE_DATE_IN_PAST"
    FRACTION_OF_MINOR_UNIT = "FRACTION_OF_MINOR_UNIT"
    NOT_IN_SAT_CATALOG = "NOT_IN_SAT_CATALOG"
    RFC_CHECK_DIGIT = "RFC_CHECK_DIGIT"
    READ_ONLY = "READ_ONLY"
    DESTINATION_NOT_USED = "DESTINATION_NOT_USED"


class FieldWarning(Struct, frozen=True):
    """A field of a request that was carried out, and what its author may not expect of it."""

    field: Annotated[
        str,
        Meta(
            description="The path of the field in the body, percent-encoded; the first one, if a list has it in several "
            "entries.",
            examples=["customer.shoeSize", "lineItems[0].colour"],
        ),
    ]
    code: Annotated[
        str, Meta(description="What is remarkable about it, for programs. Permanent.", examples=["UNKNOWN_FIELD"])
    ]  # no enum in the description: later releases warn of more
    message: Annotated[str, Meta(description="What it means, and what to do, for people.")]


WARNINGS: Final[ContextVar[tuple[FieldWarning, ...]]] = ContextVar("warnings", default=())
"""The warnings of the current request, each once."""

_OF_A_CODE_MAX: Final = 20
"""How many fields an answer warns of for one reason, as many as it refuses at once."""

_encode: Final = msgspec.json.Encoder().encode


def warn(field: str, code: WarningCode, problem: str) -> None:
    """Keeps a warning for the answer to this request, unless twenty with this code are kept. `problem` completes the
    field's name.
    """
    kept = WARNINGS.get()
    warning = FieldWarning(field, code, sentence(field, problem))
    if warning not in kept and sum(each.code == code for each in kept) < _OF_A_CODE_MAX:
        WARNINGS.set((*kept, warning))


def with_warnings(response: ApiResponse) -> ApiResponse:
    """Returns the answer with this request's warnings as the last member of its object, unchanged if there are none."""
    warnings = WARNINGS.get()
    if not warnings or response.content_type is not JSON_TYPE:
        return response
    return replace(response, body=b"".join((response.body[:-1], b',"warnings":', _encode(warnings), b"}")))
