"""Stripe as a processor with which merchants connect accounts: the forms of its keys, their check, and its adapter.

Nothing here imports the HTTP client before the first account is checked or opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMode
from ledger.processors.account_methods import account_methods
from ledger.processors.contract import Processor
from ledger.processors.messages import MessageNotice
from ledger.processors.registry import AccountFacts, AccountKeys, KeyRefused
from ledger.processors.stripe import signatures

if TYPE_CHECKING:
    from ledger.processors.stripe.transport import Connections

_SECRET: Final = re.compile(r"(?:sk|rk)_(?:test|live)_\w+", re.ASCII)
_PUBLISHABLE: Final = re.compile(r"pk_(?:test|live)_\w+", re.ASCII)
_SIGNATURE: Final = signatures.HEADER.lower().encode()
_SIGNING: Final = re.compile(r"whsec_\w+", re.ASCII)
_MESSAGES_REFUSED: Final = (
    "No webhook secret is stored, so Stripe's messages are refused and what they report is found minutes later: send "
    "webhookSecrets by PUT, beside the keys."
)


class StripeKind:
    """Stripe as an `AccountKind`. `url` is its address, which another one takes the place of in tests."""

    name = "stripe"
    takes_keys = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._connections: Connections | None = None

    def key_problem(self, secret_key: str) -> str | None:
        if _SECRET.fullmatch(secret_key):
            return None
        return "must be a secret or a restricted key of Stripe, which begins with sk_ or rk_"

    def publishable_key_problem(self, key: str) -> str | None:
        return None if _PUBLISHABLE.fullmatch(key) else "must be a publishable key of Stripe, which begins with pk_"

    def webhook_secret_problem(self, secret: str) -> str | None:
        return None if _SIGNING.fullmatch(secret) else "must be a signing secret of Stripe, which begins with whsec_"

    def mode_of(self, key: str) -> AccountMode:
        return AccountMode.LIVE if key.split("_")[1] == "live" else AccountMode.TEST

    def read_message(
        self, headers: Mapping[bytes, bytes], body: bytes, secrets: Sequence[str], now: datetime
    ) -> MessageNotice:
        signatures.verify(headers.get(_SIGNATURE, b"").decode("latin-1"), body, secrets, now)
        return signatures.notice_of(body)

    async def check(self, keys: AccountKeys, deadline_at: datetime) -> AccountFacts:
        from ledger.processors.stripe import account, transport
        from ledger.processors.stripe.units import UNIT

        assert keys.secret_key is not None, "an account of Stripe has a key"
        try:
            found = await account.check(transport.Transport(self._open_connections(), keys.secret_key), deadline_at)
        except transport.KeyRefused as refused:
            raise KeyRefused(str(refused)) from None
        return AccountFacts(
            mode=self.mode_of(keys.secret_key),
            reference=found.account_id,
            country=found.country,
            methods=account_methods(found.methods, UNIT),
            problems=found.problems if keys.webhook_secrets else (*found.problems, _MESSAGES_REFUSED),
        )

    async def publishable_key_mismatch(self, key: str, keys: AccountKeys, deadline_at: datetime) -> str | None:
        from ledger.processors.stripe import account, transport

        assert keys.secret_key is not None, "an account of Stripe has a key"
        own, public = (transport.Transport(self._open_connections(), each) for each in (keys.secret_key, key))
        try:
            is_own = await account.has_publishable_key(own, public, deadline_at)
        except transport.KeyRefused:
            return "is refused by Stripe: copy it again from Stripe's pages"
        return "must be a publishable key of the same account as secretKey" if is_own is False else None

    def open(self, account: ProcessorAccount, keys: AccountKeys) -> Processor:
        """Returns the adapter of an account with these keys. Makes no call."""
        from ledger.processors.stripe.account import capabilities_of, methods_of
        from ledger.processors.stripe.processor import StripeProcessor

        assert keys.secret_key is not None, "an account of Stripe has a key"
        capabilities = capabilities_of(methods_of(account.terms.country))
        return StripeProcessor(self._open_connections(), keys.secret_key, capabilities)

    async def stop(self) -> None:
        """Closes the connections of all accounts."""
        if self._connections is not None:
            await self._connections.close()

    def _open_connections(self) -> Connections:
        from ledger.processors.stripe.transport import Connections

        if self._connections is None:
            self._connections = Connections(self._url)
        return self._connections
