"""Reconciliation: compares what every account lists with the log in both directions, and records what the log lacks.

A call whose outcome is still open is left to the recovery. An effect that only the ledger has recorded cannot be
repaired: an operator asks the processor. Accounts are read side by side, and look-ups too, at most eight at a time of
each merchant: an account that hangs delays no other one. Never compare what an account lists for another merchant: a
merchant writes the metadata of his own account.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol
from uuid import UUID

import structlog
from msgspec.structs import replace

from ledger.background.fair_slots import FairSlots
from ledger.background.inbox.message_handlers import MessageApplier
from ledger.background.inbox.payment_changes import record_unrequested_refund
from ledger.background.periodic import run_periodically
from ledger.background.reactions.quarantine import UNREADABLE
from ledger.background.reconciliation.comparison import (
    Difference,
    Kind,
    Missing,
    Unreachable,
    Unread,
    answer_contrast,
    contrast,
    difference_of,
    intent_of,
    line_contrast,
    line_difference,
    listed_under,
    payment_of,
    possible_actions,
    records_of,
    reports_of,
    unknown_line,
    unknown_payment,
    unknown_record,
)
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.events import CancelledBecause, PaymentCancelled, VoidRequested
from ledger.domain.orders.payment import Intent, Payment
from ledger.domain.orders.processor_outcomes import Refunded, RefundPending, RefundRefused
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.payment_lookup import PaymentLookup
from ledger.operations.orders.processor_call import ProcessorCall
from ledger.operations.pipeline.execute import record_outcome
from ledger.operations.pipeline.processor_requests import Asking, look_up_call
from ledger.operations.pipeline.unit_of_work import UnitOfWork, load_order
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import (
    LineRequest,
    Processor,
    ProcessorRecord,
    ProcessorTimedOut,
    ProcessorUnavailable,
)
from ledger.processors.findings import UnrequestedRefund
from ledger.processors.messages import SettlementLine, SettlementRefused
from ledger.telemetry.metrics import RECONCILIATION_DIFFERENCES, RECONCILIATION_UNREACHABLE, RECONCILIATION_UNREAD

_log = structlog.get_logger()

MARGIN: Final = timedelta(minutes=15)
"""The least age of a compared record: an outcome that has just been answered is about to be recorded."""
OVERLAP: Final = timedelta(days=1)
"""How far a day's comparison goes back into the day before, which an outage may have cut short."""
_EVERY_S: Final = 600.0
"""How often a worker looks whether a day has passed, or an account that was not reachable is due again."""
_LOOK_S: Final = 60.0
_ACCOUNTS_AT_ONCE: Final = 16
_ACCOUNTS_OF_A_MERCHANT: Final = 4
_SHARED: Final = UUID(int=0)
"""The merchants who share one account, as the slots count them."""

_AWAY: Final = (ProcessorTimedOut, ProcessorUnavailable, TimeoutError)
_VOIDED: Final = frozenset({PaymentStatus.CANCELLED, PaymentStatus.FAILED})
"""The statuses of a payment that was voided: FAILED if its capture had been refused."""

Account = tuple[UUID | None, str]
"""The merchant of an account, None for a shared one, and its name."""
Listed = tuple[UUID, str, str]
"""The merchant, the name of an account, and the key of what it has listed."""
Finding = Difference | Unreachable | Unread
Place = tuple[UUID, UUID]
"""An order and one of its payments."""
Moved = Callable[[datetime, datetime], Awaitable[Sequence[tuple[UUID, UUID]]]]
"""Returns the (merchant, order) with money that moved in a time."""


class ComparedTimes(Protocol):
    """How far the accounts are compared."""

    async def take_day(self, until: datetime) -> datetime | None:
        """Takes the time up to a moment, and returns since when it is to be compared; None if no day has passed."""
        ...

    async def give_back(self, since: datetime, until: datetime) -> None:
        """Gives back a time that was taken and not compared."""
        ...

    async def put_off(self, account: Account, since: datetime) -> None:
        """Notes since when an account that was not reachable is not compared."""
        ...

    async def take_due(self) -> Sequence[tuple[Account, datetime]]:
        """Takes the accounts that were put off and may be tried again, each with the time since which it waits."""
        ...

    async def caught_up(self, account: Account) -> None:
        """Notes that an account that was put off is compared."""
        ...


class Reconciliation:
    """Compares what all accounts list with the log. `names` and `moved` read what the projections have stored."""

    def __init__(self, ledger: Ledger, names: PaymentLookup, moved: Moved) -> None:
        self._ledger = ledger
        self._names = names
        self._moved = moved
        self._applier = MessageApplier(ledger, names)

    async def run(self, times: ComparedTimes, stop: asyncio.Event) -> None:
        """Compares once a day until `stop` is set, and each hour the accounts that were not reachable.

        A day whose comparison fails is given back, and compared again.
        """

        async def compare() -> None:
            until = datetime.now(UTC) - MARGIN
            since = await times.take_day(until)
            if since is not None:
                try:
                    async for finding in self.findings(since - OVERLAP, until):
                        if isinstance(finding, Unreachable):
                            await times.put_off((finding.merchant_id, finding.account), since - OVERLAP)
                except Exception:
                    await times.give_back(since, until)
                    raise
            due = FairSlots[Account](_ACCOUNTS_AT_ONCE, _ACCOUNTS_OF_A_MERCHANT)
            for account, waits_since in await times.take_due():
                due.start(account[0] or _SHARED, account, partial(compare_again, account, waits_since, until))
            await due.drain()

        async def compare_again(account: Account, since: datetime, until: datetime) -> None:
            findings = [each async for each in self.findings(since, until, only=account)]
            if not any(isinstance(each, Unreachable) for each in findings):
                await times.caught_up(account)

        await run_periodically(compare, stop, pause_s=_EVERY_S)

    async def findings(
        self, since: datetime, until: datetime, *, repair: bool = True, only: Account | None = None
    ) -> AsyncIterator[Finding]:
        """Yields each difference of this time, each account that is not reachable, and each order that cannot be read,
        counted and logged.

        An account that is not reachable delays no other one. With `only`, that one account is compared. One that has
        several names is read once, and compared with the payments of all of them.
        """
        comparison = _Comparison(since, until, repair=repair)
        try:
            is_opened = only is None
            async for account in self._ledger.processors.every():
                if only is None or only in _all_named(account):
                    is_opened = True
                    if comparison.begin(account):
                        work = partial(self._read_account, account, comparison)
                        comparison.accounts.start(account.merchant_id or _SHARED, _named(account), work)
            if only is not None and not is_opened:
                reason = "its keys cannot be opened, or its processor is unknown to this installation"
                comparison.report(Unreachable(merchant_id=only[0], account=only[1], unreachable=reason))
                comparison.silent.add(only)
            async for finding in comparison.found_while(comparison.accounts):
                yield finding
            for merchant_id, order_id in await self._moved(since, until):
                if only is None or only[0] in {None, merchant_id}:
                    await self._ask_for_unlisted(merchant_id, order_id, comparison, only)
            async for finding in comparison.found_while(comparison.questions):
                yield finding
        finally:
            await comparison.cancel()

    async def _read_account(self, account: ProcessorAccount, comparison: _Comparison) -> None:
        """Reads what an account lists, by the keys of any of its names, and begins with what it has to ask."""
        reason, known = "", frozenset[Listed]()
        for reader in await self._readers_of(account):
            try:
                await self._read(reader, comparison, known)
            except _AWAY as fault:
                reason, known = _reason(fault), frozenset(comparison.listed)
            else:
                comparison.readers |= dict.fromkeys(_all_named(reader), reader)
                return
        comparison.silent |= set(_all_named(account))
        comparison.report(Unreachable(merchant_id=account.merchant_id, account=account.name, unreachable=reason))

    async def _readers_of(self, account: ProcessorAccount) -> Sequence[ProcessorAccount]:
        """Returns an account under each of its names that can be opened: connected ones first, whose keys are used."""
        if account.merchant_id is None or not account.also_named:
            return [account]
        accounts = await self._ledger.processors.of_merchant(account.merchant_id)
        found = [each for each in accounts if each.name in account.names]
        return sorted(found, key=lambda each: not each.is_connected) or [account]

    async def _read(self, account: ProcessorAccount, comparison: _Comparison, known: frozenset[Listed]) -> None:
        """Reads what an account lists, without what is known: it has listed that already by other keys.

        Raises ProcessorTimedOut, ProcessorUnavailable, TimeoutError.
        """
        async for record in account.processor.records(comparison.since, comparison.until):
            is_known = (record.merchant_id, account.name, record.idempotency_key) in known
            if account.merchant_id in {None, record.merchant_id} and not is_known:
                await self._compare_record(account, record, comparison)
        async for line in account.processor.lines(comparison.since, comparison.until):
            is_known = (line.merchant_id, account.name, _line_key(line)) in known
            if account.merchant_id in {None, line.merchant_id} and not is_known:
                await self._compare_line(account, _at(line, account.name), comparison)

    async def _compare_record(
        self, account: ProcessorAccount, record: ProcessorRecord, comparison: _Comparison
    ) -> None:
        comparison.note(account, record.merchant_id, record.idempotency_key)
        found = await self._place_of(
            record.merchant_id, account.names, [record.idempotency_key, record.processor_reference], comparison
        )
        if found is None:
            comparison.report(difference_of(record, account.name, unknown_record(record), None))
            return
        order, place = found
        if order is not None and contrast(order, order.payment(place[1]), record) is not None:
            ask = partial(self._differs_from_record, account, record, place, comparison)
            comparison.ask(record.merchant_id, record.idempotency_key, ask)

    async def _compare_line(self, account: ProcessorAccount, line: SettlementLine, comparison: _Comparison) -> None:
        comparison.note(account, line.merchant_id, _line_key(line))
        if not isinstance(line, SettlementRefused):  # no other batch has the payment now, whichever the log has
            comparison.note(account, line.merchant_id, f":{line.processor_reference}")
        found = await self._place_of(line.merchant_id, account.names, [line.processor_reference], comparison)
        if found is None:
            comparison.report(line_difference(line, account.name, unknown_payment(line), None))
            return
        order, place = found
        if order is not None and line_contrast(order.payment(place[1]), line) is not None:
            line = _at(line, order.payment(place[1]).account)
            ask = partial(self._differs_from_line, line, place, comparison)
            comparison.ask(line.merchant_id, _line_key(line), ask)

    # ------------------------------------------------------------------------------- the processor has it, the log not

    async def _differs_from_record(
        self, account: ProcessorAccount, record: ProcessorRecord, place: Place, comparison: _Comparison
    ) -> Difference | None:
        order = await self._load(record.merchant_id, place[0], comparison)
        found = None if order is None else contrast(order, order.payment(place[1]), record)
        if order is None or found is None:
            return None  # it has waited for its turn
        payment = order.payment(place[1])
        may_repair = comparison.repair and found.missing_in is Missing.IN_LEDGER and found.kind is not Kind.AMOUNT
        repaired = may_repair and await self._repair(account.processor, order, payment, record, comparison)
        return difference_of(record, payment.account, found, place, repaired=repaired)

    async def _differs_from_line(
        self, line: SettlementLine, place: Place, comparison: _Comparison
    ) -> Difference | None:
        order = await self._load(line.merchant_id, place[0], comparison)
        found = None if order is None else line_contrast(order.payment(place[1]), line)
        if found is None:
            return None
        repaired = comparison.repair and await self._record_line(line, place, comparison)
        return line_difference(line, line.account_name, found, place, repaired=repaired)

    async def _record_line(self, line: SettlementLine, place: Place, comparison: _Comparison) -> bool:
        """Records a line of a payout as its message would be. Returns whether the log has it then."""
        order_id, payment_id = place
        line = replace(line, order_id=order_id, payment_id=payment_id)
        for report in reports_of(line):
            await self._applier.take(report)
        order = await self._load(line.merchant_id, order_id, comparison)
        return order is not None and line_contrast(order.payment(payment_id), line) is None

    async def _place_of(
        self, merchant_id: UUID, accounts: Sequence[str], names: Sequence[str], comparison: _Comparison
    ) -> tuple[Order | None, Place] | None:
        """Returns the order of a payment that has one of these names, None if it cannot be read, with the place.

        Returns None if no payment at one of these accounts has such a name.
        """
        for name in names:
            for order_id, payment_id in await self._names.find(merchant_id, name):
                order = await self._load(merchant_id, order_id, comparison)
                if order is None or order.payment(payment_id).account in accounts:
                    return order, (order_id, payment_id)
        return None

    async def _load(self, merchant_id: UUID, order_id: UUID, comparison: _Comparison) -> Order | None:
        """Returns an order, or None if it cannot be read, which is reported: it is not compared."""
        try:
            return await load_order(self._ledger, merchant_id, order_id)
        except UNREADABLE as fault:
            comparison.report_unread(merchant_id, order_id, fault)
            return None

    async def _repair(
        self, processor: Processor, order: Order, payment: Payment, record: ProcessorRecord, comparison: _Comparison
    ) -> bool:
        """Records the answer that the processor gives for the call now. Returns whether the log has it then."""
        try:
            answer = await self._look_up(processor, order, payment, record)
        except _AWAY:
            return False
        if answer is None:
            return False
        intent, outcome = answer
        if _is_unrequested(order, payment, intent):
            return await self._record_refund(order, payment, record, intent, outcome, comparison)
        actor = Actor(merchant_id=record.merchant_id, request_id="reconciliation")
        uow = UnitOfWork(self._ledger, actor, cause=payment.payment_id)
        call = ProcessorCall(ledger=self._ledger, merchant_id=record.merchant_id, order=order, intent=intent)
        await record_outcome(uow, call, outcome)
        repaired = await uow.order(order.terms.order_id)
        return contrast(repaired, repaired.payment(payment.payment_id), record) is None

    async def _record_refund(
        self,
        order: Order,
        payment: Payment,
        record: ProcessorRecord,
        intent: Intent,
        outcome: Outcome,
        comparison: _Comparison,
    ) -> bool:
        """Records a refund that no request in the log has asked for. Returns whether the log has it then."""
        assert intent.refund_id is not None, "a refund has an id"
        if not isinstance(outcome, Refunded | RefundPending | RefundRefused):
            return False
        found = UnrequestedRefund(
            merchant_id=record.merchant_id,
            order_id=order.terms.order_id,
            payment_id=payment.payment_id,
            refund_id=intent.refund_id,
            amount=record.refunded,
            outcome=outcome,
        )
        await record_unrequested_refund(self._ledger, (payment.account,), found)
        recorded = await self._load(record.merchant_id, order.terms.order_id, comparison)
        return recorded is not None and contrast(recorded, recorded.payment(payment.payment_id), record) is None

    async def _look_up(
        self, processor: Processor, order: Order, payment: Payment, record: ProcessorRecord
    ) -> tuple[Intent, Outcome] | None:
        """Returns a record's call and the answer that the processor has for it, or None if it knows no such call."""
        for action in possible_actions(payment, record):
            intent = intent_of(order, payment, record, action)
            timeout_s = self._ledger.call_timeouts.processor_timeout_s
            asking = Asking(deadline_at=datetime.now(UTC) + timedelta(seconds=timeout_s))
            with self._ledger.timeouts.within(timeout_s):
                outcome = await look_up_call(processor, record.merchant_id, order, intent, asking)
            if outcome is not None:
                return intent, outcome
        return None

    # ------------------------------------------------------------------------------- the log has it, the processor not

    async def _ask_for_unlisted(
        self, merchant_id: UUID, order_id: UUID, comparison: _Comparison, only: Account | None
    ) -> None:
        """Begins to ask each account about what it should have of an order and did not list."""
        order = await self._load(merchant_id, order_id, comparison)
        if order is None:
            return
        voids = await self._voids(merchant_id, order)
        for name in dict.fromkeys(payment.account for payment in order.payments if payment.account):
            account = comparison.readers.get((merchant_id, name))
            account = account or await self._ledger.processors.named(merchant_id, name)
            if account is None or _named(account) in comparison.silent:
                continue
            if only is not None and only not in _all_named(account):
                continue
            for record in records_of(order, merchant_id, name, voids):
                if not any((merchant_id, name, key) in comparison.listed for key in listed_under(order, record)):
                    ask = partial(self._missing_at_processor, account, record, order)
                    comparison.ask(merchant_id, record.idempotency_key, ask)
            for payment in order.payments if account.processor.capabilities.lists_payouts else ():
                batch, reference = payment.batch, payment.processor_reference
                if payment.account != name or batch is None or reference is None:
                    continue
                batches = (batch.batch_id, "")
                if not any((merchant_id, name, f"{each}:{reference}") in comparison.listed for each in batches):
                    ask = partial(
                        self._line_missing_at_processor,
                        account,
                        merchant_id,
                        (order_id, payment.payment_id),
                        comparison,
                    )
                    comparison.ask(merchant_id, f"{batch.batch_id}:{reference}", ask)

    async def _missing_at_processor(
        self, account: ProcessorAccount, record: ProcessorRecord, order: Order
    ) -> Difference | None:
        payment = payment_of(order, record.idempotency_key)
        try:
            answer = await self._look_up(account.processor, order, payment, record)
        except _AWAY:
            return None  # the next comparison covers this time once more
        found = answer_contrast(record, None if answer is None else answer[1])
        if found is None:
            return None
        return difference_of(record, payment.account, found, (order.terms.order_id, payment.payment_id))

    async def _line_missing_at_processor(
        self, account: ProcessorAccount, merchant_id: UUID, place: Place, comparison: _Comparison
    ) -> Difference | None:
        """Asks for the line of the payout that the log has for a payment."""
        order = await self._load(merchant_id, place[0], comparison)
        payment = None if order is None else order.payment(place[1])
        if payment is None or payment.batch is None or payment.processor_reference is None:
            return None
        timeout_s = self._ledger.call_timeouts.processor_timeout_s
        request = LineRequest(
            merchant_id=merchant_id,
            batch_id=payment.batch.batch_id,
            processor_reference=payment.processor_reference,
            deadline_at=datetime.now(UTC) + timedelta(seconds=timeout_s),
        )
        try:
            with self._ledger.timeouts.within(timeout_s):
                line = await account.processor.look_up_line(request)
        except _AWAY:
            return None
        if line is None:
            return unknown_line(merchant_id, payment.account, payment, place)
        found = line_contrast(payment, _at(line, payment.account))
        return None if found is None else line_difference(line, payment.account, found, place)

    async def _voids(self, merchant_id: UUID, order: Order) -> dict[UUID, str]:
        """Returns the keys of the voids that have ended payments, by payment."""
        if not any(payment.status in _VOIDED for payment in order.payments):
            return {}
        keys, voided = dict[UUID, str](), dict[UUID, str]()
        for event in await self._ledger.journal.reader.stream(merchant_id, order.terms.order_id):
            if isinstance(event, VoidRequested):
                keys[event.payment_id] = event.idempotency_key
            elif isinstance(event, PaymentCancelled) and event.because is CancelledBecause.VOIDED:
                voided[event.payment_id] = keys[event.payment_id]
        return voided


class _Comparison:
    """One comparison: what the accounts have listed, which of them are silent, and what was found until now.

    `readers` are the accounts that were read, under each of their names: what the log has is asked by the same keys.
    """

    def __init__(self, since: datetime, until: datetime, *, repair: bool) -> None:
        self.since, self.until, self.repair = since, until, repair
        self.listed = set[Listed]()
        self.silent = set[Account]()
        self.begun = set[Account]()
        self.readers = dict[Account, ProcessorAccount]()
        self.accounts = FairSlots[Account](_ACCOUNTS_AT_ONCE, _ACCOUNTS_OF_A_MERCHANT)
        self.questions = FairSlots[tuple[UUID, str]]()
        self._unread = set[UUID]()
        self._found = deque[Finding]()

    def begin(self, account: ProcessorAccount) -> bool:
        """Notes that an account is read. Returns False if it is read already, under another name."""
        is_new = _named(account) not in self.begun
        self.begun |= set(_all_named(account))
        return is_new

    def note(self, account: ProcessorAccount, merchant_id: UUID, key: str) -> None:
        """Notes that an account has listed a key: it has under each of its names."""
        self.listed |= {(merchant_id, name, key) for name in account.names}

    def report(self, finding: Finding) -> None:
        self._found.append(_reported(finding))

    def report_unread(self, merchant_id: UUID, order_id: UUID, fault: Exception) -> None:
        """Reports once that an order was not compared."""
        if order_id not in self._unread:
            self._unread.add(order_id)
            reason = str(fault) if isinstance(fault, ArchiveUnavailable) else type(fault).__name__
            self.report(Unread(merchant_id=merchant_id, order_id=order_id, unread=reason))

    def ask(self, merchant_id: UUID, key: str, compare: Callable[[], Awaitable[Difference | None]]) -> None:
        """Starts a comparison that asks the processor, as soon as its merchant has a slot."""

        async def ask() -> None:
            difference = await compare()
            if difference is not None:
                self.report(difference)

        self.questions.start(merchant_id, (merchant_id, key), ask)

    async def found_while(self, work: FairSlots[Account] | FairSlots[tuple[UUID, str]]) -> AsyncIterator[Finding]:
        """Yields what is found until this work has ended. Raises what it has raised."""
        while work.keys or self._found:
            while self._found:
                yield self._found.popleft()
            if work.keys:
                await work.ended(_LOOK_S)
        await work.drain()  # raises what work has raised that ended before it was waited for

    async def cancel(self) -> None:
        await self.accounts.cancel()
        await self.questions.cancel()


def _is_unrequested(order: Order, payment: Payment, intent: Intent) -> bool:
    """Returns whether an intent is of a refund that the log does not have: made on the processor's own pages."""
    refund = None if intent.refund_id is None else order.refund(intent.refund_id)
    return intent.refund_id is not None and (refund is None or refund.part(payment.payment_id) is None)


def _named(account: ProcessorAccount) -> Account:
    return (account.merchant_id, account.name)


def _all_named(account: ProcessorAccount) -> Sequence[Account]:
    return [(account.merchant_id, name) for name in account.names]


def _line_key(line: SettlementLine) -> str:
    return f"{line.batch_id}:{line.processor_reference}"


def _at(line: SettlementLine, account: str) -> SettlementLine:
    """Returns a line with the account that has listed it."""
    return replace(line, account=None if account == line.processor else account)


def _reason(fault: Exception) -> str:
    """Returns why an account is not reachable, in the processor's words if it has any."""
    return str(fault) or type(fault).__name__


def _reported(finding: Finding) -> Finding:
    if isinstance(finding, Unreachable):
        RECONCILIATION_UNREACHABLE.inc()
        ids = {"merchant_id": str(finding.merchant_id or ""), "account": finding.account}
        _log.warning("reconciliation_waits", reason=finding.unreachable, **ids)
        return finding
    if isinstance(finding, Unread):
        RECONCILIATION_UNREAD.inc()
        ids = {"merchant_id": str(finding.merchant_id), "order_id": str(finding.order_id)}
        _log.error("reconciliation_order_unread", reason=finding.unread, **ids)
        return finding
    RECONCILIATION_DIFFERENCES.labels(finding.kind, finding.missing_in, str(finding.repaired).lower()).inc()
    ids = {"merchant_id": str(finding.merchant_id), "order_id": str(finding.order_id), "account": finding.account}
    facts = {"kind": finding.kind, "missing_in": finding.missing_in, "repaired": finding.repaired}
    _log.error("reconciliation_differs", **facts, **ids)
    return finding
