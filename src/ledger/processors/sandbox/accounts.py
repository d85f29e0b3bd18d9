"""The accounts of a sandbox: every merchant has `sandbox`, and may have further simulated ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol
from uuid import UUID

from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Processor
from ledger.processors.sandbox.books import NAME, book_of, is_open, open_book, opened_books
from ledger.processors.sandbox.call_executor import CallExecutor
from ledger.processors.sandbox.processor import SandboxProcessor


class OpenProcessor(Protocol):
    """Opens a simulated processor with records in a book; without one it is the processor that all merchants share."""

    def __call__(self, *, book_id: UUID | None) -> SandboxProcessor: ...


class SandboxAccounts:
    """The simulated accounts. `trace` is called with each processor that is opened and the name of its account."""

    def __init__(
        self,
        executor: CallExecutor,
        open_processor: OpenProcessor,
        trace: Callable[[Processor, str], None] | None = None,
    ) -> None:
        self._executor = executor
        self._open_processor = open_processor
        self._trace = trace
        self._opened: dict[UUID, dict[str, ProcessorAccount]] = {}
        self.sandbox = self._new(NAME, None)

    @property
    def alive(self) -> bool:
        return self._executor.alive

    async def of_merchant(self, merchant_id: UUID) -> Sequence[ProcessorAccount]:
        """Returns `sandbox` and the accounts that this process has opened for the merchant."""
        return [self.shared, *self._opened.get(merchant_id, {}).values()]

    async def named(self, merchant_id: UUID, name: str) -> ProcessorAccount | None:
        """Returns an account that the merchant has, opened by this process or by another one.

        Raises ProcessorUnavailable or ProcessorTimedOut if the database does not answer.
        """
        if name == NAME:
            return self.shared
        opened = self._opened.get(merchant_id, {}).get(name)
        if opened is not None:
            return opened
        async with self._executor.connection() as connection:
            found = await is_open(connection, merchant_id, name)
        return self._add(merchant_id, name) if found else None

    async def every(self) -> AsyncIterator[ProcessorAccount]:
        """Yields the account that all merchants share, and each further one."""
        yield self.shared
        async with self._executor.connection() as connection:
            books = await opened_books(connection)
        for book in books:
            assert book.account is not None, "a book of this table has an account"
            yield self._add(book.merchant_id, book.account)

    async def open(self, merchant_id: UUID, name: str) -> ProcessorAccount:
        """Opens a further simulated account for a merchant, with records of its own; returns it if it is open already.

        Raises ProcessorUnavailable or ProcessorTimedOut.
        """
        if name == NAME:
            return self.shared
        if name not in self._opened.get(merchant_id, {}):
            async with self._executor.connection() as connection:
                await open_book(connection, merchant_id, name)
        return self._add(merchant_id, name)

    @property
    def shared(self) -> ProcessorAccount:
        """The account that every merchant has."""
        return ProcessorAccount(name=NAME, processor=self.sandbox)

    def _add(self, merchant_id: UUID, name: str) -> ProcessorAccount:
        accounts = self._opened.setdefault(merchant_id, {})
        if name not in accounts:
            processor = self._new(name, book_of(merchant_id, name))
            accounts[name] = ProcessorAccount(name=name, processor=processor, merchant_id=merchant_id)
        return accounts[name]

    def _new(self, name: str, book_id: UUID | None) -> SandboxProcessor:
        processor = self._open_processor(book_id=book_id)
        if self._trace is not None:
            self._trace(processor, name)
        return processor
