"""How the sandbox's processor treats a merchant: as usual, down, or slow.

The rule a stranger would break: the mode is the processor's, kept in its own book, so it holds in every process at once.
"""

from __future__ import annotations

from typing import Final

from api.answers import Answer, json_answer
from api.call import Call
from api.decoding import BodyDecoder
from api.resource import Rooms
from api.sandbox.bank import bank
from api.schemas.sandbox import SetProcessorMode
from ledger.gateways.bookings import Mode

_decode: Final = BodyDecoder(SetProcessorMode)


async def set_mode(rooms: Rooms, call: Call) -> Answer:
    """POST {base}/sandbox/processor: the mode of the merchant's next calls."""
    request = _decode(await call.body(rooms.body_limit))
    await bank(rooms).set_mode(call.principal.merchant_id, Mode(request.mode), request.times)
    return json_answer(200, {"mode": request.mode, "times": request.times})
