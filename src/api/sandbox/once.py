"""The answer of a sandbox helper; a repeated request under an Idempotency-Key gets the first answer (contract N30)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.response import REPLAYED, ApiResponse, json_response
from ledger.operations.pipeline.execute_once import execute_once

S = TypeVar("S", bound=Struct)


async def answer_once(
    deps: Dependencies, request: ApiRequest, body: bytes, kind: type[S], act: Callable[[UUID], Awaitable[S]]
) -> tuple[S, tuple[Any, ...]]:
    """Returns the result of `act`, or the earlier result under the request's key, and the headers that show which it
    is.

    Raises like `execute_once`.
    """
    key = request.idempotency_key(deps.fingerprint_key, body)

    async def encoded(seed: UUID) -> Raw:
        return Raw(msgspec.json.encode(await act(seed)))

    result, repeated = await execute_once(deps.ledger, request.actor, key, encoded)
    return msgspec.json.decode(result, type=kind), REPLAYED if repeated else ()


async def respond_once(
    deps: Dependencies, request: ApiRequest, body: bytes, kind: type[S], act: Callable[[UUID], Awaitable[S]]
) -> ApiResponse:
    """Returns 200 with the result of `answer_once`."""
    result, headers = await answer_once(deps, request, body, kind, act)
    return json_response(200, result, headers)
