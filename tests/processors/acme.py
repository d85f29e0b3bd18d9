"""A processor with accounts that have keys, for tests: it accepts keys by their text, and asks nobody."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode
from ledger.processors.contract import Processor, ProcessorTimedOut
from ledger.processors.registry import AccountFacts, AccountKeys, KeyRefused

CARDS = AccountMethod(
    type=MethodType.CARD,
    currencies=("MXN", "USD"),
    amount_min=Decimal(1000),
    amount_max=Decimal(99999999),
    installments=(3, 6),
)
SPEI = AccountMethod(type=MethodType.SPEI, currencies=("MXN",), amount_min=Decimal(1), amount_max=Decimal(99999999))
GOOD, OTHER, BAD, DOWN, FOREIGN = (
    f"sk_test_{word}0123456789abcdef" for word in ("good", "other", "bad", "down", "foreign")
)
SIGNING, NEXT_SIGNING = "whsec_0123456789abcdef", "whsec_fedcba9876543210"
SECRETS = (GOOD, OTHER, BAD, DOWN, SIGNING, NEXT_SIGNING)


class Acme:
    """The processor as an `AccountKind`. It refuses a key with `bad` in it, and does not answer one with `down`.

    A key with `foreign` in it is another account's.
    """

    name = "acme"
    takes_keys = True

    def __init__(self) -> None:
        self.checks = 0

    def key_problem(self, secret_key: str) -> str | None:
        return None if secret_key.startswith("sk_") else "must be a secret key, which begins with sk_"

    def publishable_key_problem(self, key: str) -> str | None:
        return None if key.startswith("pk_") else "must be a publishable key, which begins with pk_"

    def webhook_secret_problem(self, secret: str) -> str | None:
        return "must not be empty" if not secret else None

    def mode_of(self, key: str) -> AccountMode:
        return AccountMode.LIVE if "_live_" in key else AccountMode.TEST

    async def check(self, keys: AccountKeys, deadline_at: datetime) -> AccountFacts:
        assert keys.secret_key is not None, "it was checked"
        assert deadline_at.tzinfo is not None, "deadlines are aware"
        self.checks += 1
        if "down" in keys.secret_key:
            raise ProcessorTimedOut("no answer")
        if "bad" in keys.secret_key:
            raise KeyRefused(f"Invalid API Key provided: {keys.secret_key}, signed with {SIGNING}\n")
        problems = () if keys.webhook_secrets else ("No webhook secret is stored: messages are refused.",)
        reference = "acct_two" if "foreign" in keys.secret_key else "acct_one"
        return AccountFacts(
            mode=self.mode_of(keys.secret_key),
            reference=reference,
            country="MX",
            methods=(CARDS, SPEI),
            problems=problems,
        )

    async def publishable_key_mismatch(self, key: str, keys: AccountKeys, deadline_at: datetime) -> str | None:
        assert keys.secret_key is not None, "it was checked"
        assert deadline_at.tzinfo is not None, "deadlines are aware"
        return "must be a key of the same account" if "foreign" in key else None

    def open(self, account: ProcessorAccount, keys: AccountKeys) -> Processor:
        raise NotImplementedError("No payment is made at this processor.")

    async def stop(self) -> None:
        pass
