"""What reading the body of the current request notes for its answer: warnings, ignored names, read-only fields.

The endpoint sets one object for each request, which most requests leave as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Annotated, Final

from msgspec import Meta, Struct


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


class UnknownFieldPolicy(Struct, frozen=True):
    """What becomes of unknown fields that could be harmless: they are ignored with a warning, or refused.

    The body's own `read_only` fields are what the operation answers: who sends them back expects nothing of them.
    `choices` is what a field of an operation on money or documents could choose (`choosing_names`): a name that does,
    and that the operation lacks, is refused.
    """

    rejects: bool = False
    read_only: frozenset[str] = frozenset()
    choices: frozenset[str] = frozenset()


_WARNS: Final = UnknownFieldPolicy()


class BodyNotes(Struct):
    """The policy for unknown fields of one request, and what was noted of its body.

    `warnings` has each warning once; `ignored` the unknown names that have no effect; `read_only` the JSON of the
    read-only fields that were sent and have a single value.
    """

    policy: UnknownFieldPolicy = _WARNS
    warnings: tuple[FieldWarning, ...] = ()
    ignored: tuple[str, ...] = ()
    read_only: Mapping[str, bytes] = {}


NOTES: Final[ContextVar[BodyNotes | None]] = ContextVar("body_notes", default=None)
"""The notes of the current request, None outside of one."""


def current_notes() -> BodyNotes:
    """Returns the notes of the current request. Outside of one, it returns notes that are not read."""
    return NOTES.get() or BodyNotes()
