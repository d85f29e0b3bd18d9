"""Telling a story file to the ledger of an installation: what `ledger seed` and the demo do.

The rule a stranger would break: bodies are read by the API's own drafting, given to the story from here. The story
itself knows nothing of HTTP, and no second way to read a body exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar
from uuid import UUID

import msgspec

from api.http.errors import Refusal
from api.orders.parse_actions import read_cancel, read_capture, read_device_data, read_payment, read_refund
from api.orders.parse_orders import read_charge, read_create
from ledger.background.inbox.delivery import open_mail
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.clock_advance import ClockHand
from ledger.background.scheduler.clock_lock import holding
from ledger.domain.rejections import ConcurrentUpdate, InvalidTerms
from ledger.postgres.faults import Fault
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.security.api_keys import NewKey, new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding.context import Readers, merchant_id_of
from ledger.seeding.runner import Post, Report, StoryClock, tell
from ledger.seeding.scenario_file import Line, Place, read_lines
from ledger.settings import CannotRun, Settings
from ledger.wiring import open_ledger

P = ParamSpec("P")
T = TypeVar("T")

_SILENCE_S: Final = 0.05
"""How long the sandbox's silent card is waited for: nobody stands at the till of a story."""


def _in_our_words(read: Callable[P, T]) -> Callable[P, T]:
    def read_it(*arguments: P.args, **more: P.kwargs) -> T:
        try:
            return read(*arguments, **more)
        except Refusal as refusal:
            wrong = refusal.errors[0]
            raise InvalidTerms(wrong.field, wrong.message) from None

    return read_it


READERS: Final = Readers(
    create=_in_our_words(read_create),
    charge=_in_our_words(read_charge),
    payment=_in_our_words(read_payment),
    refund=_in_our_words(read_refund),
    cancel=_in_our_words(read_cancel),
    capture=_in_our_words(read_capture),
    device_data=_in_our_words(read_device_data),
)


async def seed(settings: Settings, file: Path, make_key: Callable[[], NewKey] | None = None) -> Report:
    """Tell a story file on the settings' database; `make_key` where a merchant's key is not to be a fresh one.

    Raises CannotRun: production, where a merchant's time is the real one; a file that cannot be read; a line that cannot
    be told (StoryWrong).
    """
    if settings.environment == "production":
        raise CannotRun("a story has times of its own, and in production time is real: stories are for the sandbox")
    story = list(read_lines(file))
    url = settings.database_url
    assert url is not None, "the command has made sure of its database"
    merchants = {merchant_id_of(line.merchant) for _, line in story}
    clock = StoryClock()
    impatient = msgspec.structs.replace(settings, sandbox_deadline_s=_SILENCE_S)
    try:
        async with (
            holding(url, merchants),
            open_ledger(impatient, clock=clock) as ledger,
            open_mail(url, ledger) as mail,
        ):
            assert isinstance(ledger.processor, SandboxProcessor), "the sandbox has no other"
            post = Post(ledger.processor.outbox, mail)
            report = await tell(ledger, clock, story, READERS, make_key or fresh_keys(settings), post)
        await _move_ahead(settings, story)
    except ConcurrentUpdate as busy:
        raise CannotRun(str(busy)) from busy
    except Fault as fault:
        raise CannotRun(f"the database does not answer ({type(fault).__name__})") from fault
    return report


async def _move_ahead(settings: Settings, story: Sequence[tuple[Place, Line]]) -> None:
    """Move the clocks of merchants whose last line lies in the future to that line's moment."""
    last: dict[UUID, datetime] = {merchant_id_of(line.merchant): line.at for _, line in story}
    ahead = {merchant_id: at.astimezone(UTC) for merchant_id, at in last.items() if at > datetime.now(UTC)}
    if not ahead:
        return
    assert settings.database_url is not None, "the command has made sure of its database"
    async with open_ledger(settings) as ledger, open_mail(settings.database_url, ledger) as mail:
        hand = ClockHand(settings.database_url, ledger, REACTIONS, HANDLERS, mail)
        for merchant_id, at in ahead.items():
            await hand.advance(merchant_id, "at", partial(max, at))


def fresh_keys(settings: Settings) -> Callable[[], NewKey]:
    """Makes API keys of this installation. Raises SettingWrong where its master key is not to be had."""
    return partial(new_key, settings.environment, load_secrets(settings).key(Purpose.API_KEY_PEPPER))
