"""Executes a request once under its idempotency key that commits nothing of its own in the ledger: a sandbox's helper.

The helper acts before its answer is recorded. Therefore it derives every id that it gives out from the key: after a
crash in between, the same request acts on the same ids, and what it did before counts once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4, uuid5

from msgspec import Raw

from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.idempotency import completed_before
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork


async def execute_once(
    ledger: Ledger, actor: Actor, key: IdempotencyKey | None, act: Callable[[UUID], Awaitable[Raw]]
) -> tuple[Raw, bool]:
    """Returns the JSON that `act` returns, or has returned under this key before, and whether it was repeated.

    `act` gets the id from which it derives the others. Its result is stored in the log, so it must not contain personal
    data. Raises what `act` raises, and with a key IdempotencyKeyReused, RequestInProgress, a Fault of the journal.
    """
    return await ledger.complete(_execute(UnitOfWork(ledger, actor, key), key, act))


async def _execute(
    uow: UnitOfWork, key: IdempotencyKey | None, act: Callable[[UUID], Awaitable[Raw]]
) -> tuple[Raw, bool]:
    if key is None:
        return await act(uuid4()), False
    done = await completed_before(uow)
    if done is not None:
        return done, True
    result = await act(uuid5(uow.merchant_id, f"request:{key.key}"))
    await uow.refresh()  # the helper may have moved the clock
    await uow.record_result(result)
    return result, False
