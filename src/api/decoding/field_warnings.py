"""Warnings: what a request that was carried out may not have meant, by its fields.

Warn only of what follows from the body and from the order's log: a repeated request then gets the same warnings.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from api.decoding.body_notes import BodyNotes, FieldWarning, current_notes
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


_OF_A_CODE_MAX: Final = 20
"""How many fields an answer warns of for one reason, as many as it refuses at once."""

_encode: Final = msgspec.json.Encoder().encode


def warn(field: str, code: WarningCode, problem: str) -> None:
    """Keeps a warning for the answer to this request, unless twenty with this code are kept. `problem` completes the
    field's name.
    """
    notes = current_notes()
    kept = notes.warnings
    warning = FieldWarning(field, code, sentence(field, problem))
    if warning not in kept and sum(each.code == code for each in kept) < _OF_A_CODE_MAX:
        notes.warnings = (*kept, warning)


def with_warnings(response: ApiResponse, notes: BodyNotes) -> ApiResponse:
    """Returns the answer with a request's warnings as the last member of its object, unchanged if there are none."""
    warnings = notes.warnings
    if not warnings or response.content_type is not JSON_TYPE:
        return response
    return replace(response, body=b"".join((response.body[:-1], b',"warnings":', _encode(warnings), b"}")))
