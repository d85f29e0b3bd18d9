"""The cases of the contract: each is written once, and names what an account needs for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from tests.processors.contract.account import FAILURES, AccountUnderTest, CardKind, Need

Run = Callable[[AccountUnderTest], Awaitable[None]]


class Case(Struct, frozen=True, kw_only=True):
    """A case. An account that has not all `needs` leaves it out. `call` names the call of a case that holds for all."""

    name: str
    needs: frozenset[Need | CardKind]
    run: Run
    call: str | None = None


CASES: Final[dict[str, Case]] = {}
"""All cases by name. The modules of this package add theirs when they are imported."""

_CASE_S: Final = 120.0


def case(*needs: Need | CardKind) -> Callable[[Run], Run]:
    """Adds a case under its function's name."""

    def add(run: Run) -> Run:
        add_case(run.__name__, run, *needs)
        return run

    return add


def add_case(name: str, run: Run, *needs: Need | CardKind, call: str | None = None) -> None:
    assert name not in CASES, f"two cases are called {name}"
    CASES[name] = Case(name=name, needs=frozenset(needs), run=run, call=call)


class Report(Struct, frozen=True, kw_only=True):
    """What the cases have shown of one kind of account."""

    passed: list[str]
    failed: Mapping[str, Exception]

    def raise_failures(self) -> None:
        """Raises what has failed, each with its case's name."""
        for name, failure in self.failed.items():
            failure.add_note(f"the case: {name}")
        if self.failed:
            raise ExceptionGroup(f"{len(self.failed)} cases failed", list(self.failed.values()))


async def run_cases(
    open_account: Callable[[], Awaitable[AccountUnderTest]], cases: Mapping[str, Case] = CASES, *, at_once: int = 8
) -> Report:
    """Runs every case at an account of its own that it leaves nothing out of, some of them at once."""
    passed, failed = list[str](), dict[str, Exception]()
    permits = asyncio.Semaphore(at_once)

    async def one(case: Case) -> None:
        async with permits:
            account = await open_account()
            try:
                async with asyncio.timeout(_CASE_S):
                    await case.run(account)
                passed.append(case.name)
            except Exception as failure:  # noqa: BLE001 - every case is reported
                failed[case.name] = failure
            finally:
                await account.close()

    await asyncio.gather(*(one(case) for case in cases.values()))
    return Report(passed=sorted(passed), failed=failed)


def left_out(account: AccountUnderTest, cases: Mapping[str, Case] = CASES) -> Mapping[str, str]:
    """Returns the reason for each case that an account leaves out."""
    missing = {name: sorted(case.needs - account.has) for name, case in cases.items()}
    return {name: "; ".join(map(_reason, needs)) for name, needs in missing.items() if needs}


def kept(account: AccountUnderTest, cases: Mapping[str, Case] = CASES) -> Mapping[str, Case]:
    """Returns the cases that an account does not leave out."""
    return {name: case for name, case in cases.items() if case.needs <= account.has}


def summary(name: str, account: AccountUnderTest) -> str:
    """Returns how many cases an account has, and those that it leaves out with the reason, counted and in lines."""
    missing = left_out(account)
    counted = "\n".join(f"  {n} {reason}" for reason, n in sorted(Counter(missing.values()).items()))
    lines = "\n".join(f"    {case}: {reason}" for case, reason in sorted(missing.items()))
    return f"{name}: {len(kept(account))} cases, {len(missing)} left out\n{counted}\n{lines}"


def _reason(need: Need | CardKind) -> str:
    return f"it has no test token for {need}" if isinstance(need, CardKind) else f"it {need}"


async def failure_of(call: Awaitable[Any]) -> Exception:
    """Returns the failure of a call that has no answer."""
    try:
        answer = await call
    except FAILURES as failure:
        return failure
    raise AssertionError(f"it was answered: {answer}")


async def outcome_of(call: Awaitable[Any]) -> Any:
    """Returns the answer of a call, or its failure if it has none."""
    try:
        return await call
    except FAILURES as failure:
        return failure
