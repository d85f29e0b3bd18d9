"""Every case of the contract at every kind of account: two of the sandbox, and Stripe at our fake and at Stripe World."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from campaigns.fake_stripe.running import control, fake_stripe_here
from campaigns.stand_ins.environment import CannotStart, stripe_world
from campaigns.stand_ins.interference import interfered
from tests.processors.contract.account import AccountUnderTest
from tests.processors.contract.cases import CASES, Case, kept, run_cases
from tests.processors.contract.every_case import LEFT_OUT, SHORT, accounts, listed
from tests.processors.contract.sandboxes import SLOW_S, Sandbox, further
from tests.processors.contract.stripes import FakedStripe, Faults, StripeOfWorld

from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio

Open = Callable[[], Awaitable[AccountUnderTest]]


@pytest.fixture
def simulated(executor: CallExecutor) -> SandboxAccounts:
    return SandboxAccounts(executor, partial(SandboxProcessor, executor, slow_s=SLOW_S))


@asynccontextmanager
async def at_the_fake() -> AsyncIterator[Open]:
    """Runs our fake, and yields what opens an account there. No answer of it may be outside Stripe's description."""
    faults = Faults()
    with fake_stripe_here() as url:
        async with interfered(url, faults.decide) as between:
            yield partial(FakedStripe.opened, between, faults, url)
        assert control(url, "state", None, "GET")["violations"] == 0


@asynccontextmanager
async def at_stripe_world(log: Path) -> AsyncIterator[Open]:
    """Runs Stripe World, and yields what opens an account there. Raises CannotStart."""
    faults = Faults()
    with stripe_world(log) as running:
        [url] = running.wait_ready()
        async with interfered(url, faults.decide) as between:

            async def opened() -> AccountUnderTest:
                return StripeOfWorld(between, faults)

            yield opened


async def show(name: str, opened: Open, cases: Mapping[str, Case], *, at_once: int = 8) -> None:
    """Runs the cases that a kind of account does not leave out. Raises what fails, or if one has not run."""
    mine = kept(accounts()[name], cases)
    report = await run_cases(opened, mine, at_once=at_once)
    report.raise_failures()
    assert report.passed == sorted(mine)


def test_what_an_account_leaves_out_is_listed_with_the_reason() -> None:
    """To change the list on purpose: `python -m tests.processors.contract.every_case`."""
    assert listed() == LEFT_OUT.read_text()
    assert all(len(kept(account)) >= 60 for account in accounts().values())


async def test_the_sandbox(simulated: SandboxAccounts) -> None:
    async def opened() -> AccountUnderTest:
        return Sandbox(simulated)

    await show("sandbox", opened, CASES)


async def test_a_further_account_of_the_sandbox(simulated: SandboxAccounts) -> None:
    await show("a further account of the sandbox", partial(further, simulated), SHORT)


async def test_stripe_at_our_fake() -> None:
    async with at_the_fake() as opened:
        await show("Stripe at our fake", opened, SHORT)


@pytest.mark.long
async def test_every_case_at_every_account_and_again(simulated: SandboxAccounts) -> None:
    async with at_the_fake() as opened:
        for at_once in (4, 24):
            await show("a further account of the sandbox", partial(further, simulated), CASES, at_once=at_once)
            await show("Stripe at our fake", opened, CASES, at_once=at_once)


@pytest.mark.long
async def test_stripe_at_stripe_world(tmp_path: Path) -> None:
    try:
        async with at_stripe_world(tmp_path / "log") as opened:
            await show("Stripe at Stripe World", opened, CASES)
            await show("Stripe at Stripe World", opened, SHORT, at_once=24)
    except CannotStart as reason:
        pytest.skip(str(reason))
