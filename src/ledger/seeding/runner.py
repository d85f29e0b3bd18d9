"""Runs a scenario: its lines one after another, each at its own time.

Work that falls due on the orders between the lines happens at its own time, before the next line runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct

from ledger.domain.rejections import InvalidField, Rejected
from ledger.operations.context.ledger import Ledger
from ledger.operations.merchants.registration import UnknownMerchant, merchant_of
from ledger.operations.message_delivery import MessageDelivery, MessageSource
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.security.api_keys import NewKey
from ledger.seeding.actions import ACTIONS
from ledger.seeding.context import BodyParsers, LineResult, RunContext, RunningLine, merchant_id_of
from ledger.seeding.due_work import DueWork, ScenarioClock
from ledger.seeding.scenario_file import InvalidScenario, LineNumber, ScenarioLine

Scenario = Sequence[tuple[LineNumber, ScenarioLine]]


class RunReport(Struct, frozen=True):
    """The result of a run, and the keys that it issued: secrets by merchant id, which are not stored."""

    outcomes: Counter[LineResult]
    keys: dict[UUID, str]

    @property
    def lines(self) -> int:
        return self.outcomes.total()

    @property
    def new(self) -> int:
        """How many lines changed something, declined payments included."""
        return self.outcomes[LineResult.NEW] + self.outcomes[LineResult.DECLINED]

    @property
    def declined(self) -> int:
        """How many new lines have a payment that was declined, as the scenario intends."""
        return self.outcomes[LineResult.DECLINED]


async def run_scenario(
    ledger: Ledger,
    clock: ScenarioClock,
    scenario: Scenario,
    parsers: BodyParsers,
    new_key: Callable[[], NewKey],
    source: MessageSource,
    delivery: MessageDelivery,
) -> RunReport:
    """Runs a scenario on a ledger that uses `clock`. `new_key` makes the key of a merchant that is registered.

    After the last line, the work that falls due on the orders is done up to that line's time, or up to the present if
    that is later. The caller holds the leases on the merchants' clocks meanwhile (see
    `background.clock.lock`).

    Raises InvalidScenario at the first line that cannot be run. Unknown actions and times that run backwards are found
    before the first line runs; when the ledger refuses a line, the lines above it have happened. A declined payment is
    a part of the scenario.
    """
    _check(scenario)
    context = RunContext(ledger, clock, DueWork(ledger, clock, source, delivery), parsers, new_key)
    outcomes: Counter[LineResult] = Counter()
    for place, line in scenario:
        with _errors_at(place):
            await context.due_work.run_until(merchant_id_of(line.merchant), line.at)
            clock.set(line.at)
            await _load_merchant(context, place, line)
            outcomes[await ACTIONS[line.action](RunningLine(context, place, line))] += 1
    now = datetime.now(UTC)
    ends = {merchant_id_of(line.merchant): (place, max(line.at, now)) for place, line in scenario}
    for merchant_id, (place, ends_at) in ends.items():
        with _errors_at(place):
            await context.due_work.run_until(merchant_id, ends_at)
    return RunReport(outcomes, context.api_keys)


async def _load_merchant(context: RunContext, place: LineNumber, line: ScenarioLine) -> None:
    merchant_id = merchant_id_of(line.merchant)
    if line.action != "register" and merchant_id not in context.merchants:
        try:
            context.merchants[merchant_id] = await merchant_of(context.ledger, merchant_id)
        except UnknownMerchant:
            raise InvalidScenario(place, f"{line.merchant!r} has not been registered by an earlier line") from None


def _check(scenario: Scenario) -> None:
    """Raises InvalidScenario for the faults of a scenario that do not depend on the ledger."""
    times: dict[str, datetime] = {}
    for place, line in scenario:
        if line.action not in ACTIONS:
            raise InvalidScenario(place, f"there is no action {line.action!r}; there are: {', '.join(ACTIONS)}")
        if line.at < times.get(line.merchant, line.at):
            raise InvalidScenario(place, f"{line.at.isoformat()} is before the merchant's line above it")
        times[line.merchant] = line.at


@contextmanager
def _errors_at(place: LineNumber) -> Iterator[None]:
    """Turns an exception that stops a line into InvalidScenario with the line's place."""
    try:
        yield
    except InvalidField as error:
        raise InvalidScenario(place, error.message) from None
    except Rejected as rejection:
        raise InvalidScenario(place, f"{rejection.code}: {rejection.message}") from None
    except (ProcessorTimedOut, ProcessorUnavailable) as failure:
        raise InvalidScenario(place, str(failure)) from failure
    except Fault as fault:
        raise InvalidScenario(place, f"the database does not answer ({type(fault).__name__})") from fault
