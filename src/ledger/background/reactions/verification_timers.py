"""The timers of cards that are being verified: a call without an outcome is looked up, a payer's time ends.

A handler decides on the verification as it is: a timer that fires twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from ledger.background.effects import SetTimer
from ledger.background.scheduler.jobs import Handler
from ledger.domain.payment_methods.due import EXPIRY, LOOK_UP, due_of
from ledger.domain.payment_methods.events import VERIFICATION_TOPICS
from ledger.domain.streams import PAYMENT_METHODS
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.complete import expire_verification, look_up_verification


class VerificationUnderWay(Exception):
    """The outcome of a verification's call or the end of its session is not known yet: it is asked for again."""


class VerificationTimers:
    """Stores when each verification of a customer's cards is looked up, or ends because its payer has not acted."""

    name = "verification-dues"
    topics = frozenset(VERIFICATION_TOPICS)

    def is_settled(self, seen: Sequence[SeenEvent]) -> bool:  # noqa: ARG002 - the protocol's parameter
        """Returns False: a verification begins with a call, which has a timer."""
        return False

    async def timers(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """Returns the timers of a customer's verifications as they are now. Raises a Fault."""
        methods, _ = await journal.load(merchant_id, PAYMENT_METHODS, stream_id)
        if methods is None:
            return []
        return [SetTimer(due.kind, stream_id, due.payment_method_id, due.at) for due in due_of(methods)]


async def _look_up(ledger: Ledger, merchant_id: UUID, stream_id: UUID, method_id: UUID, _: datetime) -> None:
    """Raises VerificationUnderWay while the outcome is unknown, so that the job is tried again."""
    if not await look_up_verification(ledger, merchant_id, stream_id, method_id):
        raise VerificationUnderWay


async def _expire(ledger: Ledger, merchant_id: UUID, stream_id: UUID, method_id: UUID, _: datetime) -> None:
    """Raises VerificationUnderWay while the processor does not answer, so that the job is tried again."""
    if not await expire_verification(ledger, merchant_id, stream_id, method_id):
        raise VerificationUnderWay


HANDLERS: Final[Mapping[str, Handler]] = {LOOK_UP: _look_up, EXPIRY: _expire}
