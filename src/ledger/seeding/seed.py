"""Runs a scenario file on the ledger of an installation, for `ledger seed` and the demo.

Bodies are parsed by the HTTP interface's own parsers, which this module passes to the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar
from uuid import UUID

import msgspec

from api.errors import ApiError
from api.orders.add_payment import parse_payment
from api.orders.authenticate import parse_device_data
from api.orders.cancel import parse_cancel
from api.orders.capture import parse_capture
from api.orders.charge import parse_charge
from api.orders.create import parse_create
from api.orders.refund import parse_refund
from ledger.background.clock.advance import ClockAdvancer
from ledger.background.clock.lock import locked_clocks
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.domain.rejections import ConcurrentUpdate, InvalidField
from ledger.journal.operator import Operator
from ledger.postgres.faults import Fault
from ledger.security.api_keys import NewKey, new_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding.context import BodyParsers, merchant_id_of
from ledger.seeding.due_work import ScenarioClock
from ledger.seeding.runner import RunReport, Scenario, run_scenario
from ledger.seeding.scenario_file import read_lines
from ledger.settings import CannotRun, Settings
from ledger.wiring import open_ledger

P = ParamSpec("P")
T = TypeVar("T")

_SILENCE_S: Final = 0.05
"""How long a call waits for the sandbox's card that never answers: no payer waits in a scenario."""


def _raising_invalid_field(parse: Callable[P, T]) -> Callable[P, T]:
    """Returns the parser, with InvalidField in the place of the HTTP interface's error."""

    def parse_body(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return parse(*args, **kwargs)
        except ApiError as error:
            first = error.errors[0]
            raise InvalidField(first.field, first.message) from None

    return parse_body


PARSERS: Final = BodyParsers(
    create=_raising_invalid_field(parse_create),
    charge=_raising_invalid_field(parse_charge),
    payment=_raising_invalid_field(parse_payment),
    refund=_raising_invalid_field(parse_refund),
    cancel=_raising_invalid_field(parse_cancel),
    capture=_raising_invalid_field(parse_capture),
    device_data=_raising_invalid_field(parse_device_data),
)


async def seed(
    settings: Settings,
    file: Path,
    make_key: Callable[[], NewKey] | None = None,
    operator: Operator | None = None,
) -> RunReport:
    """Runs a scenario file on the settings' database. `make_key` supplies the merchants' keys; without it, new keys are
    generated.

    Raises CannotRun in production, because a merchant's time is real there; for a file that cannot be read; for a line
    that cannot be run (InvalidScenario).
    """
    if settings.environment == "production":
        raise CannotRun(
            "a scenario has times of its own, and in production time is real: scenarios are for the sandbox"
        )
    scenario = list(read_lines(file))
    url = settings.database_url
    assert url is not None, "the command has named its database"
    merchants = {merchant_id_of(line.merchant) for _, line in scenario}
    clock = ScenarioClock()
    impatient = msgspec.structs.replace(settings, sandbox_deadline_s=_SILENCE_S)
    try:
        async with (
            locked_clocks(url, merchants),
            open_ledger(impatient, clock=clock, operator=operator) as ledger,
            open_delivery(url, ledger) as delivery,
        ):
            sandbox = ledger.processors.sandbox
            assert sandbox is not None, "the environment is a sandbox"
            keys, source = make_key or fresh_keys(settings), sandbox.outbox
            report = await run_scenario(ledger, clock, scenario, PARSERS, keys, source, delivery)
        await _move_ahead(settings, url, scenario, operator)
    except ConcurrentUpdate as busy:
        raise CannotRun(str(busy)) from busy
    except Fault as fault:
        raise CannotRun(f"the database does not answer ({type(fault).__name__})") from fault
    return report


async def _move_ahead(settings: Settings, url: str, scenario: Scenario, operator: Operator | None) -> None:
    """Moves the clocks of merchants whose last line is in the future to that line's time."""
    last: dict[UUID, datetime] = {merchant_id_of(line.merchant): line.at for _, line in scenario}
    ahead = {merchant_id: at.astimezone(UTC) for merchant_id, at in last.items() if at > datetime.now(UTC)}
    if not ahead:
        return
    async with open_ledger(settings, operator=operator) as ledger, open_delivery(url, ledger) as delivery:
        advancer = ClockAdvancer(url, ledger, REACTIONS, HANDLERS, delivery)
        for merchant_id, at in ahead.items():
            await advancer.advance_fully(merchant_id, "at", partial(max, at))


def fresh_keys(settings: Settings) -> Callable[[], NewKey]:
    """Returns a function that makes API keys of this installation.

    Raises SettingWrong if its master key is missing.
    """
    return partial(new_key, settings.environment, load_secrets(settings).key(Purpose.API_KEY_PEPPER))
