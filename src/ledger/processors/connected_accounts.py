"""The accounts that merchants have connected, each with the processor that has its keys.

An account that this process cannot open, because its keys do not open or its processor is unknown here, is left out and
logged: the merchant's other accounts go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import structlog

from ledger.domain.orders.capabilities import MethodCapability
from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts import state
from ledger.domain.processor_accounts.terms import AccountStatus, AccountTerms
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Processor
from ledger.processors.merchant_accounts import MerchantAccounts
from ledger.processors.registry import AccountKeys
from ledger.processors.sandbox.accounts import SandboxAccounts
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.ttl_cache import TtlCache

_log = structlog.get_logger()

_OPENED_MAX: Final = 20_000
_OPENED_TTL_S: Final = 3600.0

OpenAdapter = Callable[[state.ProcessorAccount, AccountKeys], Processor]
"""Returns the processor of an account with these keys. Makes no call."""

Adapters = Mapping[str, OpenAdapter]
"""The real processors of an installation, by their names."""

FindMerchants = Callable[[], Awaitable[Sequence[UUID]]]
"""Returns the merchants that have connected an account. Raises a Fault."""


_List = tuple[Sequence[state.ProcessorAccount], Sequence[ProcessorAccount]]
"""What is stored of a merchant's accounts, as it was read once, and these accounts opened."""


class ConnectedAccounts:
    """The accounts of an installation: those that are stored, and in a sandbox the simulated ones.

    `trace` is called with each real processor that is opened and the name of its account.
    """

    def __init__(
        self,
        accounts: MerchantAccounts,
        simulated: SandboxAccounts | None,
        adapters: Adapters,
        find_merchants: FindMerchants,
        trace: Callable[[Processor, str], None] | None = None,
    ) -> None:
        self._accounts = accounts
        self.simulated = simulated
        self._adapters = adapters
        self._find_merchants = find_merchants
        self._trace = trace
        self._opened = TtlCache[UUID, tuple[AccountTerms, Processor]](_OPENED_MAX, _OPENED_TTL_S)
        self._lists = TtlCache[UUID, _List](_OPENED_MAX, _OPENED_TTL_S)

    @property
    def alive(self) -> bool:
        return self.simulated is None or self.simulated.alive

    @property
    def sandbox(self) -> SandboxProcessor | None:
        return None if self.simulated is None else self.simulated.sandbox

    async def of_merchant(self, merchant_id: UUID) -> Sequence[ProcessorAccount]:
        """Returns a merchant's accounts in the order of their connection: behind `sandbox`, if it has that."""
        stored = await self._accounts.stored(merchant_id)
        if not stored:
            return [] if self.simulated is None else [self.simulated.shared]
        known = self._lists.get(merchant_id)
        if known is not None and known[0] is stored:
            return known[1]
        opened = [await self._open(merchant_id, each) for each in stored]
        found = [each for each in opened if each is not None]
        if self.simulated is not None and all(each.name != state.SANDBOX for each in stored):
            found = [self.simulated.shared, *found]
        self._lists.put(merchant_id, (stored, found))
        return found

    async def named(self, merchant_id: UUID, name: str) -> ProcessorAccount | None:
        """Returns a merchant's account, also a disconnected one; None if there is none, or if it cannot be opened."""
        account = await self._stored(merchant_id, name)
        if account is not None:
            return await self._open(merchant_id, account)
        return self.simulated.shared if self.simulated is not None and name == state.SANDBOX else None

    async def every(self) -> AsyncIterator[ProcessorAccount]:
        """Yields the account that all merchants of a sandbox share, and each further account of a merchant."""
        if self.simulated is not None:
            yield self.simulated.shared
        for merchant_id in await self._find_merchants():
            for account in await self.of_merchant(merchant_id):
                if account.merchant_id is not None:
                    yield account

    async def _stored(self, merchant_id: UUID, name: str) -> state.ProcessorAccount | None:
        """Returns what is stored of an account. One that is not known here is read again: another process may just have
        connected it, and have made a payment there.
        """
        account = await self._known(merchant_id, name)
        if account is None and name != state.SANDBOX:
            self._accounts.forget(merchant_id)
            account = await self._known(merchant_id, name)
        return account

    async def _known(self, merchant_id: UUID, name: str) -> state.ProcessorAccount | None:
        return next((each for each in await self._accounts.stored(merchant_id) if each.name == name), None)

    async def _open(self, merchant_id: UUID, account: state.ProcessorAccount) -> ProcessorAccount | None:
        if account.processor == state.SANDBOX:
            return await self._simulated(merchant_id, account)
        if account.keys_erased_at is not None:
            return None
        processor = await self._processor(merchant_id, account)
        if processor is None:
            return None
        refundable = {each.type for each in processor.capabilities.methods if each.refundable}
        return ProcessorAccount(
            name=account.name,
            processor=processor,
            is_connected=account.status is AccountStatus.CONNECTED,
            methods=_methods(account, refundable),
            merchant_id=merchant_id,
            also_named=await self._further_names(merchant_id, account),
        )

    async def _further_names(self, merchant_id: UUID, account: state.ProcessorAccount) -> tuple[str, ...]:
        """Returns the other names of an account, by the processor's own id of it; also those that cannot be opened."""
        if account.terms.reference is None:
            return ()
        own = (account.processor, account.terms.reference)
        stored = await self._accounts.stored(merchant_id)
        others = (each for each in stored if each.account_id != account.account_id)
        return tuple(each.name for each in others if (each.processor, each.terms.reference) == own)

    async def _simulated(self, merchant_id: UUID, account: state.ProcessorAccount) -> ProcessorAccount | None:
        if self.simulated is None:
            return None
        opened = await self.simulated.open(merchant_id, account.name)
        return ProcessorAccount(
            name=opened.name,
            processor=opened.processor,
            is_connected=account.status is AccountStatus.CONNECTED,
            methods=_methods(account, {each.type for each in opened.takes}),
            merchant_id=opened.merchant_id,
        )

    async def _processor(self, merchant_id: UUID, account: state.ProcessorAccount) -> Processor | None:
        known = self._opened.get(account.account_id)
        if known is not None and known[0] == account.terms:
            return known[1]
        open_adapter, secret_id = self._adapters.get(account.processor), account.terms.secret_id
        keys = None
        if open_adapter is not None and secret_id is not None:
            try:
                keys = await self._accounts.keys.open(merchant_id, secret_id)
            except (KeyUnavailable, SealBroken):
                keys = None
        if open_adapter is None or keys is None:
            self._accounts.forget(merchant_id)
            ids = {"merchant_id": str(merchant_id), "account": account.name}
            _log.error("processor_account_not_opened", processor=account.processor, **ids)
            return None
        processor = open_adapter(account, keys)
        if self._trace is not None:
            self._trace(processor, account.name)
        self._opened.put(account.account_id, (account.terms, processor))
        return processor


def _methods(account: state.ProcessorAccount, refundable: set[MethodType]) -> tuple[MethodCapability, ...]:
    """Returns what the merchant lets an account take."""
    return tuple(
        MethodCapability(
            type=each.type,
            currencies=each.currencies,
            amount_min=each.amount_min,
            amount_max=each.amount_max,
            installments=each.installments,
            refundable=each.type in refundable,
        )
        for each in account.terms.methods
    )
