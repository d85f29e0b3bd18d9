"""GET /v1/log/key and /v1/log/checkpoint: the public keys of the merchant's log, and what they have signed last."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.log.errors import log_empty
from api.operation import ANY, LOG, OperationSpec, codes_of
from api.response import ApiResponse, Headers

TEXT_TYPE: Final = (b"content-type", b"text/plain; charset=utf-8")
CHANGES: Final[Headers] = ((b"cache-control", b"private, no-store"),)


async def show_keys(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/log/key: 200 with a line for each public key, the newest first."""
    lines = [f"{verifier}\n" for verifier in deps.log_keys.verifiers(request.principal.merchant_id)]
    return ApiResponse(200, "".join(lines).encode(), CHANGES, TEXT_TYPE)


async def show_checkpoint(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/log/checkpoint: 200 with the newest checkpoint, 404 LOG_EMPTY if there is none."""
    place = await deps.trees.place(request.principal.merchant_id)
    if place.checkpoint is None:
        raise log_empty()
    return ApiResponse(200, place.checkpoint.encode(), CHANGES, TEXT_TYPE)


SHOW_KEYS: Final = ScopedOperation(
    show_keys,
    AUDIT,
    OperationSpec(
        name="getLogKeys",
        summary="Read the public keys of the log",
        description="""
The keys by which checkpoints of the merchant's log are verified, a line each (a *vkey* of C2SP signed-note), the newest
first. The two newest sign. Keep a copy outside the service: a checkpoint is only worth what its key is.
""",
        text="The keys.",
        codes=ANY,
        tag=LOG,
    ),
)
SHOW_CHECKPOINT: Final = ScopedOperation(
    show_checkpoint,
    AUDIT,
    OperationSpec(
        name="getLogCheckpoint",
        summary="Read the newest checkpoint of the log",
        description="""
The size and the root of the Merkle tree over the merchant's log, signed (C2SP tlog-checkpoint). Entry *n* of the tree is
the event at position *n* + 1. A checkpoint is signed some seconds after an event; every later one continues it, which
`GET /v1/log/consistency` proves.
""",
        text="The checkpoint.",
        codes=codes_of(ANY, {404: ("LOG_EMPTY",)}),
        tag=LOG,
    ),
)
