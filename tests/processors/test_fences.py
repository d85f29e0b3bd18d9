"""Fences: a call that a look-up did not find, and fenced, has no effect when it arrives; a recorded one keeps its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg
import pytest
from tests.processors.conftest import Ask
from tests.processors.shop import Shop, question

from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.sandbox.processor import SandboxProcessor

pytestmark = pytest.mark.anyio

DISPUTED, CHALLENGED = "4000000000000259", "4000000000003220"
ROUNDS = 6

Call = tuple[Any, Callable[[SandboxProcessor], Callable[..., Awaitable[Any]]], str]
"""A request, the method that sends it, and the name of its look-up."""


def effects(database_url: str) -> Sequence[tuple[Any, ...]]:
    """Returns what the processor has recorded: charges and calls, without fences."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            "select 'CHARGE', idempotency_key from sandbox_charge where decline_code is distinct from 'FENCED' union all "
            "select kind, idempotency_key from sandbox_call where answer <> 'FENCED' order by 1, 2"
        ).fetchall()


async def calls_of(sandbox: SandboxProcessor, ask: Ask) -> Sequence[Call]:
    shop = Shop(sandbox)
    reference, captured = await shop.authorized(), await shop.authorized()
    await sandbox.capture(shop.capture(captured, 6_000))
    return [
        (ask(), lambda at: at.authorize, "look_up"),
        (ask(DISPUTED), lambda at: at.authorize, "look_up"),
        (ask(CHALLENGED, authenticate=True), lambda at: at.authorize, "look_up"),
        (shop.capture(reference, 4_000), lambda at: at.capture, "look_up_capture"),
        (shop.void(reference), lambda at: at.void, "look_up_void"),
        (shop.release(captured), lambda at: at.release, "look_up_release"),
        (shop.refund(captured, 1_000), lambda at: at.refund, "look_up_refund"),
    ]


async def test_a_fenced_call_has_no_effect_in_any_process(
    sandbox: SandboxProcessor, elsewhere: SandboxProcessor, ask: Ask, database_url: str
) -> None:
    calls = await calls_of(sandbox, ask)
    before = effects(database_url)
    for request, method, look_up in calls:
        key = (request.merchant_id, request.idempotency_key)
        assert await getattr(sandbox, look_up)(question(*key, fence=True)) is None
        for at in (sandbox, elsewhere):
            with pytest.raises(ProcessorUnavailable, match="refuse this key"):
                await method(at)(request)
            assert await getattr(at, look_up)(question(*key)) is None
        assert await getattr(elsewhere, look_up)(question(*key, fence=True)) is None, "fenced twice"
    assert effects(database_url) == before


async def test_a_recorded_call_keeps_its_answer(
    sandbox: SandboxProcessor, elsewhere: SandboxProcessor, ask: Ask
) -> None:
    for request, method, look_up in await calls_of(sandbox, ask):
        answer = await method(sandbox)(request)
        found = await getattr(elsewhere, look_up)(question(request.merchant_id, request.idempotency_key, fence=True))
        assert found == answer
        assert await method(elsewhere)(request) == answer, "a repeated call is not refused"


async def test_either_the_call_or_the_fence_is_first(
    sandbox: SandboxProcessor, elsewhere: SandboxProcessor, ask: Ask, database_url: str
) -> None:
    """Both at once, many times: what the look-up returns is what the processor did."""
    outcomes = set[bool]()
    for _ in range(ROUNDS):
        for request, method, look_up in await calls_of(sandbox, ask):
            key = (request.merchant_id, request.idempotency_key)
            answer, found = await asyncio.gather(
                method(sandbox)(request),
                getattr(elsewhere, look_up)(question(*key, fence=True)),
                return_exceptions=True,
            )
            recorded = request.idempotency_key in {name for _, name in effects(database_url)}
            assert recorded is (found is not None) is not isinstance(answer, ProcessorUnavailable), (
                look_up,
                answer,
                found,
            )
            outcomes.add(recorded)
    assert outcomes == {True, False}, "one of them was always first: the test has shown nothing"
