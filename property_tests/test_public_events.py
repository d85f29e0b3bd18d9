"""The public events of random stories: each change is announced once, and in order, however events form commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property_tests.test_order_actions import OrderUnderTest, draw_from
from property_tests.test_subscriptions import ZONES, Model, _act, plans
from tests.domain.announced import Log, check_order, checked

from ledger.domain.orders.evolve.order import evolve
from ledger.domain.public_events.command import PublicEvent
from ledger.domain.public_events.statuses import SUBSCRIPTION_STATUSES
from ledger.domain.subscriptions.evolve import evolve as evolve_subscription
from ledger.domain.subscriptions.state import SUBSCRIPTION_EDGES

FACTS = {
    "payment.created", "payment.captured", "payment.late_deposit", "payment.refunded", "payment.settled",
    "payment.disputed", "payment.dispute_closed",
}  # fmt: skip
"""What each event of the log states by itself, however events are grouped into commands."""


class Story(OrderUnderTest):
    """An order under random commands and outcomes. `commands` are the events of each."""

    def __init__(self, rng: Random) -> None:
        self.commands: list[list[Any]] = []
        super().__init__(partial(draw_from, rng))

    def _apply(self, decided: list[Any]) -> None:
        super()._apply(decided)
        if decided:
            self.commands.append(decided)


def facts(found: Sequence[PublicEvent]) -> Counter[tuple[str, UUID]]:
    return Counter((each.kind.name, each.resource_id) for each in found if each.kind.name in FACTS)


def announced(commands: Sequence[Sequence[Any]]) -> list[PublicEvent]:
    """Returns the public events of an order's commands, and checks those of each command and their sequence."""
    log, found, status = Log(evolve), list[PublicEvent](), None
    for events in commands:
        own = check_order(log.command(events))
        for each in own:
            if each.resource_type == "payment_order" and each.kind.is_status:
                assert each.previous_status == status, "a consumer that follows the statuses misses none"
        status = log.state.status
        found += own
    return found


@pytest.mark.parametrize("stories", [150, pytest.param(10_000, marks=pytest.mark.long)])
def test_each_change_of_an_order_is_announced_once_however_its_events_form_commands(stories: int) -> None:
    rng = Random(28)
    for _ in range(stories):
        story = Story(rng)
        for _ in range(rng.randint(5, 30)):
            story.step()
        events = [event for command in story.commands for event in command]
        found = announced(story.commands)
        assert sum(each.kind.name == "payment_order.created" for each in found) == 1
        cuts = [0, *sorted(rng.sample(range(1, len(events)), min(3, len(events) - 1))), len(events)]
        groupings = (
            [events],
            [[event] for event in events],
            [events[a:b] for a, b in pairwise(cuts)],
        )
        assert all(facts(announced(commands)) == facts(found) for commands in groupings)


class AnnouncedModel(Model):
    """A subscription of which every command's public events are checked."""

    def take(self, events: list[Any]) -> bool:
        before = self.state
        taken = super().take(events)
        if events:
            log = Log(evolve_subscription)
            log.state = before
            self._check(before, checked(log.command(events)))
        return taken

    def _check(self, before: Any, found: Sequence[PublicEvent]) -> None:
        after = self.state
        assert after is not None
        own = [each for each in found if each.resource_type == "subscription"]
        moved = [each for each in own if each.kind.is_status]
        created = [each.kind.name for each in found if each.kind.name.endswith(".created")]
        if not after.is_shown:
            assert found == []
        elif before is None or not before.is_shown:
            assert (created[0], moved) == ("subscription.created", [])
            assert len(created) == 1 + len(after.invoices)
        else:
            assert len(created) == len(after.invoices) - len(before.invoices)
            assert [each.previous_status for each in moved] == (
                [before.status] if before.status != after.status else []
            )
            assert all((each.kind,) == SUBSCRIPTION_STATUSES[after.status].kinds for each in moved)
        for invoice in after.invoices if after.is_shown else ():
            was = None if before is None else next((i for i in before.invoices if i == invoice), None)
            ended = {"PAID": "paid", "VOID": "voided", "UNCOLLECTIBLE": "uncollectible"}.get(invoice.status)
            names = [each.kind.name.partition(".")[2] for each in found if each.resource_id == invoice.invoice_id]
            earlier = None if before is None or was is not None else self._status(before, invoice.invoice_id)
            if was is None and ended is not None and earlier != invoice.status:
                assert names.count(ended) == 1

    @staticmethod
    def _status(state: Any, invoice_id: UUID) -> Any:
        return next((each.status for each in state.invoices if each.invoice_id == invoice_id), None)


@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.long)])
def test_each_change_of_a_subscription_is_announced_once(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(plans(), st.sampled_from(ZONES), st.data())
    def holds(plan: Any, zone: str, data: Any) -> None:
        model = AnnouncedModel(plan, zone)
        for _ in range(data.draw(st.integers(1, 12))):
            model.run(data.draw)
            if model.state is None or not model.state.is_live:
                break
            _act(model, data.draw)

    holds()


def test_every_status_that_a_subscription_can_move_to_has_a_kind() -> None:
    assert all(SUBSCRIPTION_STATUSES[to].kinds for origin, to in SUBSCRIPTION_EDGES if origin is not None)
