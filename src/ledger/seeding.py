"""Telling a story file to the ledger of an installation: what `ledger seed` and the demo do.

The rule a stranger would break: bodies are read by the API's own drafting, given to the story from here. The story
itself knows nothing of HTTP, and no second way to read a body exists.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from api.drafting.payment_orders import read_charge, read_create
from api.refusals import Refusal
from ledger.api_keys import NewKey, new_key
from ledger.rejections import InvalidTerms
from ledger.secrets import Purpose, load_secrets
from ledger.settings import CannotRun, Settings
from ledger.stories.actions import Readers
from ledger.stories.lines import read_lines
from ledger.stories.telling import Report, StoryClock, tell
from ledger.wiring import open_ledger

T = TypeVar("T")

_SILENCE_S: Final = 0.05
"""How long the sandbox's silent card is waited for: nobody stands at the till of a story."""


def _in_our_words(read: Callable[[bytes, datetime], T], body: bytes, now: datetime) -> T:
    try:
        return read(body, now)
    except Refusal as refusal:
        raise InvalidTerms(refusal.errors[0].field if refusal.errors else "body", refusal.message) from None


READERS: Final = Readers(
    create=partial(_in_our_words, read_create),
    charge=partial(_in_our_words, read_charge),
)


async def seed(settings: Settings, file: Path, make_key: Callable[[], NewKey] | None = None) -> Report:
    """Tell a story file on the settings' database; `make_key` where a merchant's key is not to be a fresh one.

    Raises CannotRun: production, where a merchant's time is the real one; a file that cannot be read; a line that cannot
    be told (StoryWrong).
    """
    if settings.environment == "production":
        raise CannotRun("a story has times of its own, and in production time is real: stories are for the sandbox")
    story = list(read_lines(file))
    clock = StoryClock()
    impatient = msgspec.structs.replace(settings, sandbox_deadline_s=_SILENCE_S)
    async with open_ledger(impatient, clock=clock) as ledger:
        return await tell(ledger, clock, story, READERS, make_key or fresh_keys(settings))


def fresh_keys(settings: Settings) -> Callable[[], NewKey]:
    """Makes API keys of this installation. Raises SettingWrong where its master key is not to be had."""
    return partial(new_key, settings.environment, load_secrets(settings).key(Purpose.API_KEY_PEPPER))
