"""The merchants' accounts with processors, as this process sees them: what is stored of them, and their keys.

An account of another process's change is seen two seconds later at the latest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMode, AccountTerms
from ledger.processors.account_keys import AccountKeyStore
from ledger.processors.registry import Kinds
from ledger.ttl_cache import ReadAheadCache

ACCOUNTS_MAX: Final = 20
"""How many accounts a merchant may have, disconnected ones included: every payment may read all of them."""

MESSAGES: Final = "processor-messages"
"""Where processors deliver messages, below the address of the API."""

_MERCHANTS_MAX: Final = 20_000
_TTL_S: Final = 2.0

FindAccounts = Callable[[UUID], Awaitable[Sequence[ProcessorAccount] | None]]
"""Returns the stored accounts of a merchant in the order of connection, or None without any. Raises a Fault."""


class MerchantAccounts:
    """The accounts of an installation. `kinds` are the processors that can be connected, `mode` what it may connect.

    `built_in` are the terms of the account that each merchant has without a stream, None if there is no such account.
    `public_url` is the address at which processors reach the API.
    """

    def __init__(
        self,
        find: FindAccounts,
        keys: AccountKeyStore,
        kinds: Kinds,
        *,
        mode: AccountMode,
        built_in: AccountTerms | None,
        public_url: str,
    ) -> None:
        self._find = find
        self._stored = ReadAheadCache[UUID, tuple[ProcessorAccount, ...]](_MERCHANTS_MAX, _TTL_S)
        self.keys = keys
        self.kinds = kinds
        self.mode = mode
        self.built_in = built_in
        self._public_url = public_url

    async def stored(self, merchant_id: UUID) -> Sequence[ProcessorAccount]:
        """Returns the merchant's accounts that have a stream, in the order of connection, at most two seconds old.

        Raises a Fault.
        """
        return await self._stored.get(merchant_id, lambda: self._read(merchant_id))

    async def _read(self, merchant_id: UUID) -> tuple[ProcessorAccount, ...]:
        return tuple(await self._find(merchant_id) or ())

    def forget(self, merchant_id: UUID) -> None:
        """Drops what is cached of a merchant's accounts, because one has changed."""
        self._stored.drop(merchant_id)

    def messages_url(self, merchant_id: UUID, account: ProcessorAccount) -> str | None:
        """Returns where the account's processor delivers its messages, None for a simulated one, which sends none."""
        kind = self.kinds.get(account.processor)
        if kind is None or not kind.takes_keys:
            return None
        return f"{self._public_url}/{MESSAGES}/{merchant_id}/{account.name}"
