"""GET /v1/log/tile/…: the tree and its entries as C2SP tlog-tiles has them."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.log.errors import tile_not_found
from api.operation import ANY, LOG, OperationSpec, codes_of
from api.response import ApiResponse, Headers
from ledger.tlog.merkle import HASH_BYTES
from ledger.tlog.tiles import WIDTH, encode_bundle, parse_tile_path, width_in

_BINARY: Final = "application/octet-stream"
_NEVER_CHANGES: Final[Headers] = (
    (b"cache-control", b"private, max-age=31536000, immutable"),
    (b"vary", b"x-api-key, x-merchant-id"),
)


async def show_tile(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/log/tile/{path}: 200 with the hashes of a tile or the entries of a bundle, 404 TILE_NOT_FOUND."""
    merchant_id = request.principal.merchant_id
    tile = parse_tile_path(unquote(request.scope["path_params"]["tile"]))
    if tile is None:
        raise tile_not_found()
    place = await deps.trees.place(merchant_id)
    if tile.width > width_in(tile.level, tile.number, place.size):
        raise tile_not_found()
    if tile.level == "entries":
        start = tile.number * WIDTH
        entries = await deps.trees.entries(merchant_id, start, start + tile.width)
        content, is_whole = encode_bundle(entries), len(entries) == tile.width
    else:
        content = await deps.trees.tile(merchant_id, tile.level, tile.number, tile.width)
        is_whole = len(content) == tile.width * HASH_BYTES
    if not is_whole:  # events were removed from the log
        raise tile_not_found()
    return ApiResponse(200, content, _NEVER_CHANGES, (b"content-type", _BINARY.encode()))


SHOW_TILE: Final = ScopedOperation(
    show_tile,
    AUDIT,
    OperationSpec(
        name="getLogTile",
        summary="Read a tile of the log",
        description="""
A piece of the Merkle tree or of its entries, by the path of C2SP tlog-tiles: `0/x001/x234/067` has the 256 hashes of
tile 1,234,067 at level 0, `entries/000` the first 256 entries, each behind its length in two bytes. `.p/5` behind a path
asks for the first five. A tile never changes. Programs for tlog-tiles read the whole log so, with the address of this
operation before `tile/`.
""",
        parameters=(
            {
                "name": "tile",
                "in": "path",
                "required": True,
                "description": "The level (0 to 63) or `entries`, the number in groups of three digits of which all but the "
                "last begin with `x`, and for a part `.p/` with its width (1 to 255).",
                "schema": {"type": "string", "examples": ["0/000.p/5", "entries/000.p/5"]},
            },
        ),
        text="The hashes or entries.",
        text_type=_BINARY,
        codes=codes_of(ANY, {404: ("TILE_NOT_FOUND",)}),
        tag=LOG,
    ),
)
