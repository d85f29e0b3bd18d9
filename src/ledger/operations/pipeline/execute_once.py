"""Executes a request once under its idempotency key that commits nothing of its own in the ledger: a sandbox's helper.

The helper acts before its answer is recorded. Therefore it derives every id that it gives out from the key: after a
crash in between, the same request acts on the same ids, and what it did before counts once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4, uuid5

from msgspec import Raw

from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_request import answer_key
from ledger.operations.pipeline.idempotency import result_of
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork


async def execute_once(
    ledger: Ledger, actor: Actor, key: IdempotencyKey | None, act: Callable[[UUID], Awaitable[Raw]]
) -> tuple[Raw, bool]:
    """Returns the JSON that `act` returns, or has returned under this key before, and whether it was repeated.

    `act` gets the id from which it derives the others. Its result is stored in the log, so it must not contain personal
    data. Raises what `act` raises, and with a key IdempotencyKeyReused, RequestInProgress, a Fault of the journal.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def act_once() -> tuple[Raw, bool]:
        if key is None:
            return await act(uuid4()), False
        result = await act(uuid5(uow.merchant_id, f"request:{key.key}"))
        await uow.refresh()  # the helper may have moved the clock
        await uow.record_result(result)
        return result, False

    async def again(record: IdempotencyRecord) -> tuple[Raw, bool]:
        return result_of(record), True

    return await ledger.complete(answer_key(uow, act_once, again))
