"""What every operation is given: the journal, the processors, a clock, and merchants' settings.

Never cancel an operation with its request. It runs to its outcome in a task of its own, for which the request waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import structlog
from msgspec import Struct

from ledger.domain.merchants.state import Merchant
from ledger.domain.plans.state import Plan
from ledger.domain.streams import MERCHANTS, PLANS
from ledger.invoicing.invoicing import Invoicing
from ledger.journal.journal import Journal
from ledger.notifications.contract import Notifier
from ledger.notifications.log import LogNotifier
from ledger.operations.context.card_vault import CardVault
from ledger.operations.context.clock import Clock
from ledger.operations.context.customer_cache import CustomerCache
from ledger.operations.context.order_numbers import OrderNumbers
from ledger.operations.context.webhooks import Webhooks
from ledger.processors.account_health import AccountHealth
from ledger.processors.accounts import ProcessorAccounts
from ledger.processors.card_references import CardReferences
from ledger.processors.merchant_accounts import MerchantAccounts
from ledger.processors.payer_returns import PayerReturns
from ledger.tasks import DetachedTasks, Timeouts
from ledger.ttl_cache import ReadAheadCache

T = TypeVar("T")

_log = structlog.get_logger()

_MERCHANTS_MAX: Final = 50_000
_MERCHANT_TTL_S: Final = 2.0
_PLANS_MAX: Final = 20_000
_PLAN_TTL_S: Final = 2.0


class CallTimeouts(Struct, frozen=True, kw_only=True):
    """How long processor calls may take, in seconds of real time."""

    processor_timeout_s: float = 30.0
    not_found_late_s: float = 30.0
    """How long after a call's deadline "not found" becomes final."""
    replay_wait_s: float = 10.0
    """How long a repeated request waits for the first one's outcome (contract N29)."""


class Ledger:
    """One process's access to everything that operations need. Operations are functions that take it first.

    `calls` has the call to an outside system that each event announces (`operations.calls`).
    """

    def __init__(
        self,
        journal: Journal,
        processors: ProcessorAccounts,
        order_numbers: OrderNumbers,
        *,
        calls: Mapping[type[Any], Callable[..., Any]],
        clock: Clock | None = None,
        vault: CardVault | None = None,
        card_references: CardReferences | None = None,
        accounts: MerchantAccounts | None = None,
        webhooks: Webhooks | None = None,
        invoicing: Invoicing | None = None,
        payer_returns: PayerReturns | None = None,
        health: AccountHealth | None = None,
        notifier: Notifier | None = None,
        call_timeouts: CallTimeouts = CallTimeouts(),  # noqa: B008 - frozen, shared on purpose
        subscription_unpaid_days: int = 60,
    ) -> None:
        self.journal = journal
        self.processors = processors
        self.order_numbers = order_numbers
        self.calls = calls
        self.clock = clock or Clock()
        self.vault = vault
        self.card_references = card_references
        self.accounts = accounts
        self.webhooks = webhooks
        self.invoicing = invoicing
        self.payer_returns = payer_returns
        self.health = health or AccountHealth()
        self.notifier = notifier or LogNotifier()
        self.call_timeouts = call_timeouts
        self.subscription_unpaid_days = subscription_unpaid_days
        self.customers = CustomerCache(journal)
        self.timeouts = Timeouts()
        self.slices = journal.slices
        self._merchants = ReadAheadCache[UUID, Merchant](_MERCHANTS_MAX, _MERCHANT_TTL_S)
        self._plans = ReadAheadCache[tuple[UUID, UUID], Plan | None](_PLANS_MAX, _PLAN_TTL_S)
        self._running = DetachedTasks(_log_failure)

    @property
    def has_database(self) -> bool:
        """Whether the connections for which operations wait are open. A simulated processor has the same database."""
        return self.journal.alive and self.clock.alive and self.processors.alive

    async def merchant(self, merchant_id: UUID) -> Merchant:
        """Returns a registered merchant with its settings, at most two seconds old. Raises a Fault."""
        return await self._merchants.get(merchant_id, lambda: self._load_merchant(merchant_id))

    def known_merchant(self, merchant_id: UUID) -> Merchant | None:
        """Returns what `merchant` returns, or None if that has to be waited for."""
        return self._merchants.known(merchant_id, lambda: self._load_merchant(merchant_id))

    async def _load_merchant(self, merchant_id: UUID) -> Merchant:
        merchant, _ = await self.journal.load(merchant_id, MERCHANTS, merchant_id)
        assert merchant is not None, "every API key belongs to a registered merchant"
        return merchant

    def forget_merchant(self, merchant_id: UUID) -> None:
        """Drops what is cached of a merchant, because the merchant has changed."""
        self._merchants.drop(merchant_id)

    async def plan(self, merchant_id: UUID, plan_id: UUID) -> Plan | None:
        """Returns a plan, at most two seconds old: thousands of renewals at once have the same. Raises a Fault."""
        plan = await self._plans.get((merchant_id, plan_id), lambda: self._load_plan(merchant_id, plan_id))
        if plan is None:  # it may be created in the next moment
            self.forget_plan(merchant_id, plan_id)
        return plan

    async def _load_plan(self, merchant_id: UUID, plan_id: UUID) -> Plan | None:
        plan, _ = await self.journal.load(merchant_id, PLANS, plan_id)
        return plan

    def forget_plan(self, merchant_id: UUID, plan_id: UUID) -> None:
        """Drops what is cached of a plan, because the plan has changed."""
        self._plans.drop((merchant_id, plan_id))

    def forget_accounts(self, merchant_id: UUID) -> None:
        """Drops what is cached of a merchant's accounts with processors, because one has changed."""
        if self.accounts is not None:
            self.accounts.forget(merchant_id)

    def complete(self, operation: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Runs an operation to its end in a task of its own, even if the caller that awaits it is cancelled."""
        return self._running.complete(operation)

    def call_deadline(self) -> datetime:
        """Returns the real time until which a processor call that is announced now must be answered."""
        return datetime.now(UTC) + timedelta(seconds=self.call_timeouts.processor_timeout_s)

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Starts a task that no caller awaits. It must not raise."""
        self._running.begin(work)

    async def drain(self) -> None:
        """Waits for the operations that still run."""
        await self._running.drain()


def _log_failure(failure: BaseException) -> None:
    """Logs the failure of an operation for which no request waits any more."""
    _log.warning("operation_failed_unanswered", reason=type(failure).__name__)
