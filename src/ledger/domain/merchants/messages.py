"""A processor's message that an operator has dismissed: the storage format of its stream, and its fold.

The stream has one event at most, and is therefore its own state. The message itself stays in the inbox.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct


class ProcessorMessageDismissed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An operator dismissed a processor's message that no order could record. It is not tried any more.

    `kind` is the message's type. `waited_for` is why no order had recorded it, in words.
    `account` is the merchant's account with the processor, absent where it is named as the processor.
    """

    processor: str
    message_id: str
    kind: str
    waited_for: str
    reason: str
    dismissed_by: str
    at: datetime
    account: str | None = None


TOPICS: Final[dict[str, type[Struct]]] = {"processor-message-dismissed.v1": ProcessorMessageDismissed}


def evolve(_: ProcessorMessageDismissed | None, event: ProcessorMessageDismissed) -> ProcessorMessageDismissed:
    """Returns the dismissal. The stream has one event."""
    return event
