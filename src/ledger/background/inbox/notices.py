"""The handler of notices: asks the account's processor for what a message is about, and has the answer recorded.

Never record anything from a notice itself. What the processor answers is a message of the contract, which goes into the
inbox and is tried like any other, or the state of a payment or of a card's verification, which is recorded at once. The
notice ends when all of it is stored. It is repeated without harm: every answer is named by the processor's ids, not by
the notice. An account with several names answers about the payments of all of them, so that one of them may have lost
its keys.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from ledger.background.inbox.consumer import Applied, Dismissed, Disposition, RetryLater
from ledger.background.inbox.payment_changes import (
    account_of,
    record_payment_state,
    record_unrequested_refund,
)
from ledger.background.inbox.verification_changes import record_verification_state
from ledger.operations.context.ledger import Ledger
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.findings import Finding, PaymentState, UnrequestedRefund, VerificationState
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import NoticeReceived, OrderMessage

ASKING_S: Final = 60.0
"""How long a processor may take to answer: a settlement has many lines."""

UNKNOWN_OBJECT: Final = "the processor knows nothing of what the message is about"
_SILENT: Final = "the processor does not answer what the message is about"
_NO_ACCOUNT: Final = "its account cannot be opened"


class NoticeHandler:
    """Follows notices. `inbox` takes the messages that the processors answer with."""

    def __init__(self, ledger: Ledger, inbox: Inbox) -> None:
        self._ledger = ledger
        self._inbox = inbox

    async def take(self, notice: NoticeReceived) -> Disposition:
        """Asks for the object of a notice and records the answer; a second time changes nothing. Raises a Fault."""
        account = await self._ledger.processors.named(notice.merchant_id, notice.account_name)
        if account is None:
            return RetryLater(_NO_ACCOUNT)
        try:
            with self._ledger.timeouts.within(ASKING_S):
                deadline_at = datetime.now(UTC) + timedelta(seconds=ASKING_S)
                found = await account.processor.findings(notice, deadline_at)
        except (ProcessorTimedOut, ProcessorUnavailable, TimeoutError):
            return RetryLater(_SILENT)
        if found is None:
            return Dismissed(UNKNOWN_OBJECT)
        for finding in found:
            disposition = await self._follow(account, finding)
            if not isinstance(disposition, Applied):
                return disposition
        return Applied()

    async def _follow(self, account: ProcessorAccount, finding: Finding) -> Disposition:
        match finding:
            case PaymentState():
                return await record_payment_state(self._ledger, account.names, finding)
            case UnrequestedRefund():
                return await record_unrequested_refund(self._ledger, account.names, finding)
            case VerificationState():
                return await record_verification_state(self._ledger, account.names, finding)
            case message:
                name = await self._name_for(account, message)
                if name in account.names:  # else that account gets a message of its own
                    named = None if name == message.processor else name
                    await self._inbox.receive(msgspec.structs.replace(message, account=named))
                return Applied()

    async def _name_for(self, account: ProcessorAccount, message: OrderMessage) -> str:
        """Returns the name of the account at which the payment of a message was made: the one that was asked, another
        name of that, or another account of the merchant.
        """
        accounts = await self._ledger.processors.of_merchant(message.merchant_id)
        others = (each for each in accounts if each.name != account.name)
        if not account.also_named and all(each.processor.capabilities.name != message.processor for each in others):
            return account.name
        return await account_of(self._ledger, message) or account.name
