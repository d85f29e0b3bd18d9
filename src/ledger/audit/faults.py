"""Why an event cannot be read or folded, in words.

Quote no value of an event: it may be personal data.
"""

from __future__ import annotations

import re
import traceback
from decimal import DecimalException
from pathlib import Path
from typing import Final

import msgspec

from ledger.journal.codec import UnknownTopic

_VALUE: Final = re.compile(r"(?<=^Invalid enum value) .*?(?= - at|$)", re.DOTALL)

_UNREACHABLE: Final = "Expected code to be unreachable"
"""How the text of `typing.assert_never` begins, which has the whole event."""


def reason_of(fault: Exception) -> str:
    """Returns why an event, or a row after it, could not be computed."""
    match fault:
        case UnknownTopic():
            return "this release does not know its topic"
        case msgspec.ValidationError():
            return f"it has not the members of its topic: {_VALUE.sub('', str(fault))}"
        case msgspec.DecodeError():
            return f"it is no JSON: {fault}"
        case AssertionError(args=(str(broken), *_)) if not broken.startswith(_UNREACHABLE):
            return f"it contradicts the events before it, for {broken}"
        case DecimalException():
            return "an amount in it is no number to calculate with"
        case OverflowError():
            return "a time or a number in it is too large to calculate with"
        case _:
            frame = traceback.extract_tb(fault.__traceback__)[-1]
            return f"{type(fault).__name__} in {frame.name} of {Path(frame.filename).name}, line {frame.lineno}"
