"""Merchants' accounts with processors: which of them a merchant has, and the processor of each.

An account's name is its merchant's own and permanent. The processor of an account has that account's keys: another
account of the same company is another object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.capabilities import MethodCapability
from ledger.processors.contract import Processor
from ledger.processors.sandbox.processor import SandboxProcessor


class ProcessorAccount(Struct, frozen=True, kw_only=True):
    """An account of a merchant. A disconnected one takes no new payments; what it has goes on there.

    `methods` is what the merchant has narrowed the account to, None for all that its processor takes. `merchant_id` is
    None for the one account that all merchants of a sandbox share. `also_named` are further names under which the
    merchant has connected the same account of the company: they have one list of records.
    """

    name: str
    processor: Processor
    is_connected: bool = True
    methods: tuple[MethodCapability, ...] | None = None
    merchant_id: UUID | None = None
    also_named: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the account, its own first."""
        return (self.name, *self.also_named)

    @property
    def takes(self) -> tuple[MethodCapability, ...]:
        return self.processor.capabilities.methods if self.methods is None else self.methods


class ProcessorAccounts(Protocol):
    """The accounts of all merchants. Every method raises a Fault if the accounts cannot be read."""

    @property
    def alive(self) -> bool:
        """Whether calls can be sent now, as far as this process can see without one."""
        ...

    @property
    def sandbox(self) -> SandboxProcessor | None:
        """The simulated processor that all merchants share, None in production."""
        ...

    async def of_merchant(self, merchant_id: UUID) -> Sequence[ProcessorAccount]:
        """Returns a merchant's accounts in the order of their connection, the disconnected ones too."""
        ...

    async def named(self, merchant_id: UUID, name: str) -> ProcessorAccount | None:
        """Returns an account by its name, also a disconnected one; None if the merchant has none of this name."""
        ...

    def every(self) -> AsyncIterator[ProcessorAccount]:
        """Yields the accounts of all merchants, each once."""
        ...
