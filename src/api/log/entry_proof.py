"""GET /v1/log/entries/{position}/proof: the proof that an event is in the log, verified without the service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.media_types import HEADERS, JSON, preferred_type
from api.decoding.query import Parameters, described_parameters, parse_parameters, parse_whole
from api.errors import invalid
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.log.errors import checkpoint_not_found, entry_not_found, entry_not_sealed, log_changed
from api.log.signed import TEXT_TYPE
from api.operation import ANY, LOG, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.tlog.checkpoints import parse_checkpoint
from ledger.tlog.growth import LogChanged
from ledger.tlog.merkle import inclusion_ranges, leaf_hash, verify_inclusion
from ledger.tlog.notes import Malformed, encode_base64
from ledger.tlog.proofs import Proof, encode_proof

POSITION_MAX: Final = 2**53 - 1  # what every JSON parser holds exactly
_POSITION: Final = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)  # as much as POSITION_MAX has
_TEXT: Final = "text/plain"

PARAMETERS: Final[Parameters] = {
    "size": (
        "The size of an earlier checkpoint, which the proof is to have; without it, the newest one.",
        {"type": "integer", "minimum": 1, "maximum": POSITION_MAX},
    ),
}


class EntryProof(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event as an entry of the tree, and the proof of it. Hashes are SHA-256 in base64."""

    position: Annotated[int, Meta(description="The position of the event in the merchant's log.")]
    index: Annotated[int, Meta(description="The index of the entry in the tree: one less.")]
    entry: Annotated[
        str,
        Meta(
            description="The bytes of the entry, UTF-8: the event's metadata, and hashes of its content and context.",
            examples=['{"merchantId":"01a1f8e3-3e4a-7525-a048-fe0093cb03d7","position":1}'],
        ),
    ]
    size: Annotated[int, Meta(description="The number of entries of the tree that the checkpoint has.")]
    proof: Annotated[list[str], Meta(description="The inclusion proof, from the entry's sibling to the root's child.")]
    checkpoint: Annotated[str, Meta(description="The signed checkpoint.")]


async def prove_entry(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/log/entries/{position}/proof: 200 with the proof as a file, or as JSON for a client that prefers it."""
    position, asked = _parse(request.scope["path_params"]["position"], request.query)
    merchant_id = request.principal.merchant_id
    place = await deps.trees.place(merchant_id)
    if position > place.head:
        raise entry_not_found()
    if max(position, asked or 0) > place.size:
        raise entry_not_sealed() if (asked or 0) <= place.head else checkpoint_not_found()
    size = asked or place.size
    checkpoint = place.checkpoint if size == place.size else await deps.trees.checkpoint(merchant_id, size)
    if checkpoint is None:
        raise checkpoint_not_found()
    entries = await deps.trees.entries(merchant_id, position - 1, position)
    try:
        hashes = await deps.trees.hashes(merchant_id, inclusion_ranges(position - 1, size), size)
    except LogChanged:
        raise log_changed() from None
    if not entries or not _holds(entries[0], position - 1, size, hashes, checkpoint):
        raise log_changed()
    if preferred_type(request.headers.get(b"accept", b""), (_TEXT, JSON), otherwise=_TEXT) == _TEXT:
        file = encode_proof(Proof(position - 1, hashes, checkpoint.encode()))
        return ApiResponse(200, file, HEADERS, TEXT_TYPE)
    return json_response(
        200,
        EntryProof(
            position=position,
            index=position - 1,
            entry=entries[0].decode(),
            size=size,
            proof=[encode_base64(each) for each in hashes],
            checkpoint=checkpoint,
        ),
        HEADERS,
    )


def _holds(entry: bytes, index: int, size: int, hashes: Sequence[bytes], checkpoint: str) -> bool:
    """Returns whether a proof is of the tree that was signed: not if the event was changed since, or one beside it
    in a tile that is not full.
    """
    try:
        root = parse_checkpoint(checkpoint.partition("\n\n")[0] + "\n").root
    except Malformed:
        return False
    return verify_inclusion(leaf_hash(entry), index, size, hashes, root)


def _parse(text: str, query: bytes) -> tuple[int, int | None]:
    """Returns the position and the size that a request names. Raises ApiError (400), with everything that is wrong."""
    given, errors = parse_parameters(query, PARAMETERS)
    size = errors.check(parse_whole, given, "size", 0, 1, POSITION_MAX)
    position = int(text) if _POSITION.fullmatch(text) else None
    if position is None or position > POSITION_MAX:
        errors.add(invalid("position", f"must be a whole number from 1 to {POSITION_MAX}", "OUT_OF_RANGE"))
    elif size and size < position:
        errors.add(
            invalid("size", "must be at least the position: a smaller tree does not have the event", "OUT_OF_RANGE")
        )
    errors.refuse()
    assert position is not None, "errors are refused"
    return position, size or None


PROVE_ENTRY: Final = ScopedOperation(
    prove_entry,
    AUDIT,
    OperationSpec(
        name="proveLogEntry",
        summary="Prove an event of the log",
        description="""
The proof that the event at a position is in the log that a signed checkpoint has: a file of C2SP tlog-proof, or JSON
with the entry by `Accept: application/json`. It is verified offline, with the keys of `GET /v1/log/key`, by `ledger log
verify` or any other program for the format. It has nothing personal, no amount, and stays valid after an erasure.
""",
        parameters=(
            {
                "name": "position",
                "in": "path",
                "required": True,
                "description": "The position of the event in the merchant's log, from 1.",
                "schema": {"type": "integer", "minimum": 1, "maximum": POSITION_MAX},
            },
            *described_parameters(PARAMETERS),
        ),
        answers={200: ("The proof.", EntryProof)},
        texts=(_TEXT,),
        codes=codes_of(
            ANY, {404: ("ENTRY_NOT_FOUND", "CHECKPOINT_NOT_FOUND"), 409: ("ENTRY_NOT_SEALED", "LOG_CHANGED")}
        ),
        tag=LOG,
    ),
)
