"""The cards that the sandbox keeps: each by the id under which it was saved, with the test token that it came by."""

from __future__ import annotations

from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.orders.processor_outcomes import Approved, CardReference
from ledger.processors.contract import AuthorizationRequest, CardToken
from ledger.processors.sandbox.call_executor import CallExecutor

T = TypeVar("T")

_KEPT: Final = "card_"
"""How the reference of a kept card begins; no test token does."""

_KEEP: Final = """
insert into sandbox_saved_card (book_id, token, test_token) values (%s, %s, %s)
on conflict (book_id, token) do update set test_token = excluded.test_token
"""
_FIND: Final = "select test_token from sandbox_saved_card where book_id = %s and token = %s"
_FORGET: Final = "delete from sandbox_saved_card where book_id = %s and token = %s"


async def opened(executor: CallExecutor, request: AuthorizationRequest, card: CardToken) -> AuthorizationRequest | None:
    """Returns a request with the test token of its card: that of a kept one is read, and one to keep is recorded.

    Returns None for a card that is kept no longer. Raises ProcessorTimedOut, ProcessorUnavailable.
    """
    if request.save_as is not None:
        async with executor.connection() as connection:
            await connection.execute(_KEEP, (request.merchant_id, _token(request.save_as), card.token))
        return request
    if not card.token.startswith(_KEPT):
        return request
    test_token = await _test_token(executor, request.merchant_id, card.token)
    return None if test_token is None else replace(request, card=CardToken(token=test_token))


async def with_reference(executor: CallExecutor, book_id: UUID, save_as: UUID | None, answer: T) -> T:
    """Returns an approval with the reference of the card that its call has saved, any other answer as it is.

    Raises ProcessorTimedOut, ProcessorUnavailable.
    """
    if save_as is None or not isinstance(answer, Approved):
        return answer
    token = _token(save_as)
    fingerprint = await _test_token(executor, book_id, token)
    if fingerprint is None:
        return answer
    return replace(answer, saved_card=CardReference(token=token, fingerprint=fingerprint))


async def _test_token(executor: CallExecutor, book_id: UUID, token: str) -> str | None:
    async with executor.connection() as connection:
        row = await (await connection.execute(_FIND, (book_id, token))).fetchone()
    return None if row is None else str(row[0])


async def forget(executor: CallExecutor, book_id: UUID, token: str) -> None:
    """Forgets a card. Raises ProcessorTimedOut, ProcessorUnavailable."""
    async with executor.connection() as connection:
        await connection.execute(_FORGET, (book_id, token))


def _token(save_as: UUID) -> str:
    return f"{_KEPT}{save_as.hex}"
