"""All cases of the contract, and what each kind of account leaves out of them.

`python -m tests.processors.contract.every_case` writes `left_out.txt` anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from campaigns.stand_ins.interference import Interference
from tests.processors.contract import (  # noqa: F401 - each of them adds its cases
    authentications,
    authorizations,
    captures,
    listings,
    look_ups,
    references,
    refunds,
    saved_cards,
)
from tests.processors.contract.account import AccountUnderTest
from tests.processors.contract.cases import CASES, Case, summary
from tests.processors.contract.sandboxes import Further, Sandbox
from tests.processors.contract.stripes import FakedStripe, Faults, StripeOfWorld

from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.processor import SandboxProcessor

LEFT_OUT: Final = Path(__file__).with_name("left_out.txt")

SHORT: Final[Mapping[str, Case]] = {
    name: case
    for name, case in CASES.items()
    if case.call is None or case.call in {"a captured payment", "a transfer's reference"}
}
"""The cases that every change runs at every account: those of look-ups for two calls only."""


def accounts() -> Mapping[str, AccountUnderTest]:
    """Returns an account of each kind, none of which can be asked for anything."""
    executor = CallExecutor("")
    simulated = SandboxAccounts(executor, partial(SandboxProcessor, executor))
    nowhere = Interference("")
    return {
        "sandbox": Sandbox(simulated),
        "a further account of the sandbox": Further(simulated),
        "Stripe at our fake": FakedStripe(nowhere, Faults(), "", "none"),
        "Stripe at Stripe World": StripeOfWorld(nowhere, Faults()),
    }


def listed() -> str:
    """Returns how many cases each kind of account has, and which it leaves out, why."""
    lines = [f"{len(CASES)} cases, {len(SHORT)} of them at every change."]
    return "\n\n".join([*lines, *(summary(name, account) for name, account in accounts().items())]) + "\n"


if __name__ == "__main__":
    LEFT_OUT.write_text(listed())
