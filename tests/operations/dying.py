"""Processes that are killed at a named point of an action on an order: `python -m tests.operations.dying DIRECTORY`.

The product has no hooks: each process runs the product's own operation, with functions of this module around the
journal and the processor that kill it.

It forks a process per case and ends when all have ended. In the directory, `<case>` has the merchant and the key, and
`<case>.end` the exit status.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.crash.launcher import POINTS, die
from tests.operations.conftest import register
from tests.operations.test_action_recovery import ACTIONS, Action
from tests.processors.shop import question

from ledger.operations.context.ledger import Ledger
from ledger.settings import Settings, read_settings
from ledger.wiring import open_ledger

CASES: Sequence[tuple[Action, str]] = [(action, point) for action in ACTIONS for point in POINTS]

_LOOK_UP = {
    "capture": "look_up_capture",
    "void": "look_up_void",
    "refund": "look_up_refund",
    "issue_reference": "look_up_reference",
}
_AT_ONCE = 6
_SURVIVED = 7


def name_of(action: Action, point: str) -> str:
    return f"{action.method}.{point}"


def arm(ledger: Ledger, action: Action, point: str) -> None:
    """Makes this process die at a point of its next action, whose first commit is the intent and the second the
    outcome.
    """
    commit, commits = ledger.journal.commit, 0
    processor: Any = ledger.processors.sandbox
    call, look_up = getattr(processor, action.method), getattr(processor, _LOOK_UP.get(action.method, "look_up"))

    async def deadly_commit(*arguments: Any, **named: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == 1 and point == "before-intent":
            die()
        position = await commit(*arguments, **named)
        if (commits, point) in {(1, "after-intent"), (2, "after-outcome")}:
            die()
        return position

    async def deadly_call(request: Any) -> Any:
        processor._delay_s = 30.0 if point == "during-call" else 0.0
        calling = asyncio.ensure_future(call(request))
        while point == "during-call":
            if await look_up(question(request.merchant_id, request.idempotency_key)) is not None:
                die()
            await asyncio.sleep(0.005)
        answer = await calling
        if point == "after-answer":
            die()
        return answer

    ledger.journal.commit = deadly_commit  # type: ignore[method-assign]
    setattr(processor, action.method, deadly_call)


async def act(settings: Settings, directory: Path, action: Action, point: str) -> None:
    """Prepares the order, writes its merchant to the directory, and does the action in which this process dies."""
    async with open_ledger(settings) as ledger:
        merchant = await register(ledger)
        await action.prepare(ledger, merchant)
        (directory / name_of(action, point)).write_text(f"{merchant.merchant_id} {merchant.key_id}")
        arm(ledger, action, point)
        await action.do(ledger, merchant)


def main(directory: Path) -> None:
    """Runs a process for every case to its death."""
    settings = read_settings(os.environ)
    for first in range(0, len(CASES), _AT_ONCE):
        pids = {}
        for action, point in CASES[first : first + _AT_ONCE]:
            pid = os.fork()
            if not pid:
                try:
                    asyncio.run(act(settings, directory, action, point))
                finally:
                    os._exit(_SURVIVED)
            pids[pid] = name_of(action, point)
        while pids:
            pid, status = os.wait()
            (directory / f"{pids.pop(pid)}.end").write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
