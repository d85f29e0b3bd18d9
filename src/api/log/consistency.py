"""GET /v1/log/consistency: the proof that the tree of one size is the beginning of that of another size."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from api.decoding.query import Parameters, described_parameters, parse_parameters, parse_whole
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.log.entry_proof import POSITION_MAX
from api.log.errors import entry_not_found, entry_not_sealed, log_changed, log_empty
from api.log.signed import CHANGES
from api.operation import ANY, LOG, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.tlog.growth import LogChanged
from ledger.tlog.merkle import consistency_ranges
from ledger.tlog.notes import encode_base64

PARAMETERS: Final[Parameters] = {
    "from": (
        "Required. The size of the earlier tree.",
        {"type": "integer", "minimum": 1, "maximum": POSITION_MAX},
    ),
    "to": (
        "The size of the later tree; without it, that of the newest checkpoint.",
        {"type": "integer", "minimum": 1, "maximum": POSITION_MAX},
    ),
}


class ConsistencyProof(Struct, frozen=True, kw_only=True):
    """The proof that a tree is the beginning of another one. Hashes are SHA-256 in base64."""

    from_: Annotated[int, Meta(description="The size of the earlier tree.")] = field(name="from")
    to: Annotated[int, Meta(description="The size of the later tree.")]
    proof: Annotated[list[str], Meta(description="The consistency proof (RFC 9162, 2.1.4), empty for equal sizes.")]


async def prove_consistency(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/log/consistency: 200 with the proof."""
    old, asked = _parse_sizes(request.query)
    merchant_id = request.principal.merchant_id
    place = await deps.trees.place(merchant_id)
    if place.checkpoint is None:
        raise log_empty()
    new = asked or max(place.size, old)
    if new > place.size:
        raise entry_not_sealed() if new <= place.head else entry_not_found()
    try:
        hashes = await deps.trees.hashes(merchant_id, consistency_ranges(old, new), new)
    except LogChanged:
        raise log_changed() from None
    proof = ConsistencyProof(from_=old, to=new, proof=[encode_base64(each) for each in hashes])
    return json_response(200, proof, CHANGES)


def _parse_sizes(query: bytes) -> tuple[int, int | None]:
    given, errors = parse_parameters(query, PARAMETERS)
    old = errors.check(parse_whole, given, "from", 0, 1, POSITION_MAX)
    new = errors.check(parse_whole, given, "to", 0, 1, POSITION_MAX)
    if "from" not in given:
        errors.add(required("from"))
    if old and new and old > new:
        errors.add(invalid("from", "must not be above to: a later tree does not begin an earlier one", "OUT_OF_RANGE"))
    errors.refuse()
    assert old, "a missing size was refused"
    return old, new or None


PROVE_CONSISTENCY: Final = ScopedOperation(
    prove_consistency,
    AUDIT,
    OperationSpec(
        name="proveLogConsistency",
        summary="Prove that the log has only grown",
        description="""
The proof that the tree of an earlier checkpoint is the beginning of that of a later one: nothing was changed, removed or
inserted between them.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("The proof.", ConsistencyProof)},
        codes=codes_of(ANY, {404: ("LOG_EMPTY", "ENTRY_NOT_FOUND"), 409: ("ENTRY_NOT_SEALED", "LOG_CHANGED")}),
        tag=LOG,
    ),
)
