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

from api.http.errors import ApiError
from api.orders.add_payment import parse_payment
from api.orders.authenticate import parse_device_data
from api.orders.cancel import parse_cancel
from api.orders.capture import parse_capture
from api.orders.charge import parse_charge
from api.orders.create import parse_create
from api.orders.refund import parse_refund
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.clock_advance import ClockAdvancer
from ledger.background.scheduler.clock_lock import locked_clocks
from ledger.domain.rejections import ConcurrentUpdate, InvalidField
from ledger.postgres.faults import Fault
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.security.api_keys import NewKey, new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding.context import BodyParsers, merchant_id_of
from ledger.seeding.runner import MessageRoute, RunReport, ScenarioClock, run_scenario
from ledger.seeding.scenario_file import LineNumber, ScenarioLine, read_lines
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
        except ApiError as refusal:
            wrong = refusal.errors[0]
            raise InvalidField(wrong.field, wrong.message) from None

    return read_it


READERS: Final = BodyParsers(
    create=_in_our_words(parse_create),
    charge=_in_our_words(parse_charge),
    payment=_in_our_words(parse_payment),
    refund=_in_our_words(parse_refund),
    cancel=_in_our_words(parse_cancel),
    capture=_in_our_words(parse_capture),
    device_data=_in_our_words(parse_device_data),
)


async def seed(settings: Settings, file: Path, make_key: Callable[[], NewKey] | None = None) -> RunReport:
    """Tell a story file on the settings' database; `make_key` where a merchant's key is not to be a fresh one.

    Raises CannotRun: production, where a merchant's time is the real one; a file that cannot be read; a line that cannot
    be told (InvalidScenario).
    """
    if settings.environment == "production":
        raise CannotRun("a story has times of its own, and in production time is real: stories are for the sandbox")
    story = list(read_lines(file))
    url = settings.database_url
    assert url is not None, "the command has made sure of its database"
    merchants = {merchant_id_of(line.merchant) for _, line in story}
    clock = ScenarioClock()
    impatient = msgspec.structs.replace(settings, sandbox_deadline_s=_SILENCE_S)
    try:
        async with (
            locked_clocks(url, merchants),
            open_ledger(impatient, clock=clock) as ledger,
            open_delivery(url, ledger) as mail,
        ):
            assert isinstance(ledger.processor, SandboxProcessor), "the sandbox has no other"
            post = MessageRoute(ledger.processor.outbox, mail)
            report = await run_scenario(ledger, clock, story, READERS, make_key or fresh_keys(settings), post)
        await _move_ahead(settings, story)
    except ConcurrentUpdate as busy:
        raise CannotRun(str(busy)) from busy
    except Fault as fault:
        raise CannotRun(f"the database does not answer ({type(fault).__name__})") from fault
    return report


async def _move_ahead(settings: Settings, story: Sequence[tuple[LineNumber, ScenarioLine]]) -> None:
    """Move the clocks of merchants whose last line lies in the future to that line's moment."""
    last: dict[UUID, datetime] = {merchant_id_of(line.merchant): line.at for _, line in story}
    ahead = {merchant_id: at.astimezone(UTC) for merchant_id, at in last.items() if at > datetime.now(UTC)}
    if not ahead:
        return
    assert settings.database_url is not None, "the command has made sure of its database"
    async with open_ledger(settings) as ledger, open_delivery(settings.database_url, ledger) as mail:
        hand = ClockAdvancer(settings.database_url, ledger, REACTIONS, HANDLERS, mail)
        for merchant_id, at in ahead.items():
            await hand.advance(merchant_id, "at", partial(max, at))


def fresh_keys(settings: Settings) -> Callable[[], NewKey]:
    """Makes API keys of this installation. Raises SettingWrong where its master key is not to be had."""
    return partial(new_key, settings.environment, load_secrets(settings).key(Purpose.API_KEY_PEPPER))
