"""The return of a payer whose card is saved without a payment: asks the processor, and records the answer.

The payer can come back as often as he likes: as long as the bank waits for him, nothing is written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import structlog

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.payment_methods.state import SavedMethods, stream_of
from ledger.domain.rejections import Rejected
from ledger.domain.streams import PAYMENT_METHODS
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.sessions import continue_verification, has_acted
from ledger.processors.payer_returns import CardReturn

_log = structlog.get_logger()

_ASK_S: Final = 8.0
"""How long a payer waits for the processor's answer."""


async def cardholder_returned(ledger: Ledger, back: CardReturn) -> SavedMethods | None:
    """Returns the customer's cards, with what the processor shows of the one whose payer is back. None if the customer
    never had one. Raises a Fault.

    A processor that does not answer leaves the card as it is: its message or the session's end follows.
    """
    methods = await saved_methods(ledger, back)
    open_one = None if methods is None else methods.open_verification(back.payment_method_id)
    if open_one is None or open_one.call is not None:
        return methods
    try:
        if not await has_acted(ledger, back.merchant_id, open_one, _ASK_S):
            return methods
        with suppress(Rejected):  # another call has continued or ended the session meanwhile
            await ledger.complete(continue_verification(ledger, back.merchant_id, open_one))
    except (Unavailable, TimedOut, TimeoutError) as failure:
        reason, method_id = type(failure).__name__, str(back.payment_method_id)
        _log.warning("payer_return_not_asked", reason=reason, payment_method_id=method_id)
    return await saved_methods(ledger, back)


async def saved_methods(ledger: Ledger, back: CardReturn) -> SavedMethods | None:
    """Returns the customer's cards as the log has them. Raises a Fault."""
    methods, _ = await ledger.journal.load(back.merchant_id, PAYMENT_METHODS, stream_of(back.customer_id))
    return methods
