"""Finishes what a crash left between the log and the cards: numbers in the vault, and cards that processors keep.

The log decides: a card whose method is saved is settled, one that is being verified waits, and any other is destroyed
or forgotten. A card that a request has just kept is left alone for longer than any request lives.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

import structlog

from ledger.domain.payment_methods.state import stream_of
from ledger.domain.streams import PAYMENT_METHODS
from ledger.operations.context.card_vault import CardVault, UnsettledCard
from ledger.operations.context.ledger import Ledger
from ledger.operations.payment_methods.kept_cards import forget
from ledger.processors.card_references import CardReferences, KeptCard

_log = structlog.get_logger()

_AGE_S: Final = 1200.0  # twice the longest time-out of a request that can be set
_AT_ONCE: Final = 200


async def sweep_cards(ledger: Ledger, age_s: float = _AGE_S) -> int:
    """Settles or destroys the cards that have been unsettled for `age_s` seconds. Returns how many there were.

    Raises a Fault if the vault or the log cannot be reached. A card whose method cannot be read waits again.
    """
    return await _sweep_numbers(ledger, age_s) + await _sweep_references(ledger, age_s)


async def _sweep_references(ledger: Ledger, age_s: float) -> int:
    """Settles references once, and lets the processors forget the others; those that cannot be asked wait again."""
    if ledger.card_references is None:
        return 0
    cards = await ledger.card_references.unsettled(age_s, _AT_ONCE)
    for kept in cards:
        await _settle_reference(ledger, ledger.card_references, kept)
    return len(cards)


async def _settle_reference(ledger: Ledger, references: CardReferences, kept: KeptCard) -> None:
    try:
        methods, _ = await ledger.journal.load(kept.merchant_id, PAYMENT_METHODS, stream_of(kept.customer_id))
    except Exception as fault:  # noqa: BLE001 - one stream that cannot be read must not delay the others
        _log.warning("card_not_settled", reason=type(fault).__name__, merchant_id=str(kept.merchant_id))
        await references.touch(kept)
        return
    if methods is not None and methods.method(kept.payment_method_id) is not None:
        newest = await references.find(kept.merchant_id, kept.payment_method_id, kept.account)
        if newest is None or compare_digest(newest.token.encode(), kept.reference.token.encode()):
            await references.settle(kept)
        else:
            await forget(ledger, kept)
    elif methods is not None and methods.open_verification(kept.payment_method_id) is not None:
        await references.touch(kept)
    else:
        await forget(ledger, kept)


async def _sweep_numbers(ledger: Ledger, age_s: float) -> int:
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
