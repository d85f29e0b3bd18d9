"""Imports products: creates and updates them in one commit, except those with a problem (contract N70).

Keep an import to one commit, with the record of its idempotency key. A request that fails then has imported nothing,
and a repeated one does not create the products without an id a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.products.commands import ImportProduct, Problem
from ledger.domain.products.decide import decide_import, problems_of
from ledger.domain.products.state import Product
from ledger.domain.streams import PRODUCTS, ClaimKind
from ledger.journal.append import Change, Claim, Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.execute_request import answer_key
from ledger.operations.pipeline.idempotency import result_of
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_LOADED_AT_ONCE: Final = 25


class ProductInput(Struct, frozen=True, kw_only=True):
    """A product of an import: its place in the request, the merchant's id of it, and what the parser found wrong."""

    index: int
    id: str | None = None
    details: Mapping[str, Any] = {}
    problems: tuple[Problem, ...] = ()


class FailedProduct(Struct, frozen=True, kw_only=True):
    """A product that was not imported, with all its problems."""

    index: int
    id: str | None
    problems: tuple[Problem, ...]


class ImportResult(Struct, frozen=True, kw_only=True):
    """How many products an import created and updated, and those that failed.

    A product that had every given detail already counts as updated. `repeated` marks the answer that this idempotency
    key received the first time.
    """

    created: int
    updated: int
    failed: tuple[FailedProduct, ...]
    repeated: bool = False


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ImportResult).decode


async def import_products(
    ledger: Ledger, actor: Actor, products: Sequence[ProductInput], key: IdempotencyKey | None = None
) -> ImportResult:
    """Creates and updates the products that have no problem, in one commit, and returns what became of each.

    A product whose id an earlier one of the request has fails. Raises ConcurrentUpdate if too many imports change
    the same products, a Fault of the journal: nothing was imported then; with a key also IdempotencyKeyReused and
    RequestInProgress.
    """
    uow = UnitOfWork(ledger, actor, key)
    result = ImportResult(created=0, updated=0, failed=())
    repeated = _repeated(products)

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal result
        found: list[Product | None] = []
        for n in range(0, len(products), _LOADED_AT_ONCE):
            found += await asyncio.gather(*[_load(uow, each.id) for each in products[n : n + _LOADED_AT_ONCE]])
        changes, claims, failed, created = list[Change](), list[Claim](), list[FailedProduct](), 0
        async with ledger.slices.work() as work:
            for product, existing in zip(products, found, strict=True):
                await work.end_piece()
                problems = _problems(product, existing, is_repeated=product.index in repeated)
                if problems:
                    failed.append(FailedProduct(index=product.index, id=product.id, problems=tuple(problems)))
                    continue
                change = _change(uow, product, existing)
                changes.append(change)
                if existing is None:
                    claims.append(Claim(ClaimKind.PRODUCT_ID, change.after.id, change.stream_id))
                    created += 1
        result = ImportResult(created=created, updated=len(changes) - created, failed=tuple(failed))
        changed = [change for change in changes if change.events]
        record = None if key is None else Raw(_encode(result))
        return Plan(changes=changed or changes[:1] or [_nothing()], claims=claims, result=record)

    async def act() -> ImportResult:
        plan = await execute(uow, attempt)
        if plan.result is not None and not plan.events:
            await uow.record_result(plan.result)
        return result

    async def again(record: IdempotencyRecord) -> ImportResult:
        return replace(_decode(result_of(record)), repeated=True)

    return await answer_key(uow, act, again)


async def _load(uow: UnitOfWork, product_id: str | None) -> Product | None:
    """Returns the merchant's product with this id, and notes its version for the commit."""
    return None if product_id is None else await uow.find_last(PRODUCTS, product_id)


def _change(uow: UnitOfWork, product: ProductInput, existing: Product | None) -> Change:
    stream_id = uuid7() if existing is None else existing.product_id
    command = ImportProduct(product_id=stream_id, id=product.id or str(stream_id), details=product.details, at=uow.now)
    return uow.change(PRODUCTS, stream_id, decide_import(existing, command))


def _problems(product: ProductInput, existing: Product | None, *, is_repeated: bool) -> list[Problem]:
    """Returns every problem of a product; of a field, only what the parser found first."""
    problems = list(product.problems)
    if is_repeated:
        problems.append(Problem("id", "DUPLICATE_ID", "is that of an earlier product of the request"))
    named = {problem.field for problem in problems}
    if not named.isdisjoint({"", "id"}):  # which product is meant is not known, and so what it needs
        return problems
    problems += [problem for problem in problems_of(existing, product.details) if problem.field not in named]
    return problems


def _repeated(products: Sequence[ProductInput]) -> set[int]:
    """Returns the places of the products whose id an earlier one has, whether that one is imported or fails."""
    seen, repeated = set[str](), set[int]()
    for product in products:
        if product.id is not None:
            if product.id in seen:
                repeated.add(product.index)
            seen.add(product.id)
    return repeated


def _nothing() -> Change:
    """Returns the change of an import of which every product failed."""
    return Change(uuid7(), 0, (), None, None)
