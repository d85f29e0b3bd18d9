"""Finishes what a crash left between the vault and the log: numbers whose payment method is unknown to the vault.

The log decides: a number whose method is saved is settled, one whose card is being verified waits, and any other is
destroyed. A number that a request has just kept is left alone for longer than any request lives.
"""

from __future__ import annotations

from typing import Final

import structlog

from ledger.domain.payment_methods.state import stream_of
from ledger.domain.streams import PAYMENT_METHODS
from ledger.operations.context.card_vault import CardVault, UnsettledCard
from ledger.operations.context.ledger import Ledger

_log = structlog.get_logger()

_AGE_S: Final = 1200.0  # twice the longest time-out of a request that can be set
_AT_ONCE: Final = 200


async def sweep_cards(ledger: Ledger, age_s: float = _AGE_S) -> int:
    """Settles or destroys the numbers that have been unsettled for `age_s` seconds. Returns how many there were.

    Raises a Fault if the vault or the log cannot be reached. A number whose method cannot be read waits again.
    """
    vault, count = ledger.vault, 0
    if vault is None:
        return 0
    while cards := await vault.unsettled(age_s, _AT_ONCE):
        for card in cards:
            await _settle(ledger, vault, card)
        count += len(cards)
        if len(cards) < _AT_ONCE:
            break
    return count


async def _settle(ledger: Ledger, vault: CardVault, card: UnsettledCard) -> None:
    try:
        methods, _ = await ledger.journal.load(card.merchant_id, PAYMENT_METHODS, stream_of(card.customer_id))
    except Exception as fault:  # noqa: BLE001 - one stream that cannot be read must not delay the others
        _log.warning("card_not_settled", reason=type(fault).__name__, merchant_id=str(card.merchant_id))
        await vault.unsettle(card.merchant_id, [card.payment_method_id])
        return
    is_saved = methods is not None and methods.method(card.payment_method_id) is not None
    if not is_saved and methods is not None and methods.open_verification(card.payment_method_id) is not None:
        await vault.unsettle(card.merchant_id, [card.payment_method_id])
        return
    await vault.settle(card, is_saved=is_saved)
