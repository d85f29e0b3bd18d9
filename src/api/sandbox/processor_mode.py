"""How the sandbox's processor treats a merchant: as usual, down, or slow.

The rule a stranger would break: the mode is the processor's, kept in its own book, so it holds in every process at once.
"""

from __future__ import annotations

from typing import Final

from api.dependencies import Dependencies
from api.http.decoding import BodyDecoder
from api.http.request import ApiRequest
from api.http.response import ApiResponse, json_response
from api.sandbox.processor import sandbox_processor
from api.sandbox.schemas import SetProcessorMode
from ledger.processors.sandbox.charge_rows import Mode

_decode: Final = BodyDecoder(SetProcessorMode)


async def set_mode(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/processor: the mode of the merchant's next calls."""
    request = _decode(await call.body(rooms.body_limit))
    await sandbox_processor(rooms).set_mode(call.principal.merchant_id, Mode(request.mode), request.times)
    return json_response(200, {"mode": request.mode, "times": request.times})
