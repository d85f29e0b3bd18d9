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


class WarningCode(StrEnum):
    """What is remarkable about a field, for programs. Permanent."""

    UNKNOWN_FIELD = "UNKNOWN_FIELD"


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

_encode: Final = msgspec.json.Encoder().encode


def warn(*warnings: FieldWarning) -> None:
    """Keeps warnings for the answer to this request."""
    WARNINGS.set(tuple(dict.fromkeys((*WARNINGS.get(), *warnings))))


def with_warnings(response: ApiResponse) -> ApiResponse:
    """Returns the answer with this request's warnings as the last member of its object, unchanged if there are none."""
    warnings = WARNINGS.get()
    if not warnings or response.content_type is not JSON_TYPE:
        return response
    return replace(response, body=b"".join((response.body[:-1], b',"warnings":', _encode(warnings), b"}")))
