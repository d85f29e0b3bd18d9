"""The simulated processor as one with which a merchant of the sandbox connects further accounts. It needs no keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from ledger.domain.money import FINEST
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMode, AccountTerms
from ledger.processors.account_methods import account_methods
from ledger.processors.contract import Processor
from ledger.processors.messages import InvalidSignature, MessageNotice
from ledger.processors.registry import AccountFacts, AccountKeys
from ledger.processors.sandbox.books import NAME
from ledger.processors.sandbox.test_cards import OFFERED

METHODS: Final = account_methods(OFFERED, FINEST)
"""What the simulated processor takes."""
COUNTRY: Final = "MX"
TERMS: Final = AccountTerms(mode=AccountMode.TEST, methods=METHODS, country=COUNTRY)
"""The account that every merchant of a sandbox has."""


class SandboxKind:
    """The simulated processor as an `AccountKind`."""

    name = NAME
    takes_keys = False

    def key_problem(self, secret_key: str) -> str | None:  # noqa: ARG002 - no key is right
        return "must be left out: a simulated account has no keys"

    def publishable_key_problem(self, key: str) -> str | None:
        return self.key_problem(key)

    def webhook_secret_problem(self, secret: str) -> str | None:
        return self.key_problem(secret)

    def mode_of(self, key: str) -> AccountMode:  # noqa: ARG002 - it moves no money under any key
        return AccountMode.TEST

    async def check(self, keys: AccountKeys, deadline_at: datetime) -> AccountFacts:  # noqa: ARG002 - it makes no call
        return AccountFacts(mode=AccountMode.TEST, country=COUNTRY, methods=METHODS)

    async def publishable_key_mismatch(
        self,
        key: str,  # noqa: ARG002 - the protocol's parameters
        keys: AccountKeys,  # noqa: ARG002
        deadline_at: datetime,  # noqa: ARG002
    ) -> str | None:
        return None

    def read_message(
        self,
        headers: Mapping[bytes, bytes],  # noqa: ARG002 - no signature is right: its messages do not come by HTTP
        body: bytes,  # noqa: ARG002
        secrets: Sequence[str],  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> MessageNotice:
        raise InvalidSignature

    def open(self, account: ProcessorAccount, keys: AccountKeys) -> Processor:  # noqa: ARG002 - it has no keys
        raise AssertionError("simulated accounts are opened by SandboxAccounts")

    async def stop(self) -> None:
        pass
