"""The ledger's end of the fake processor: a card processor that asks it over HTTP and believes no answer it cannot read.

The rule a stranger would break: only a connection that could not be opened is "not sent". A reset, a time-out, an error, a
broken answer and one to another key all leave the outcome unknown.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from tests.chaos.wire import Answer, Lost, NotSent, Wire
from tests.fake_processor.modes import Call, Kind, Said

from ledger.domain.orders.processor_outcomes import CaptureAnswer, RefundAnswer, VoidAnswer
from ledger.processors.contract import (
    AuthorizationAnswer,
    AuthorizationRequest,
    CaptureRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    RefundRequest,
    Request,
    VoidRequest,
)
from ledger.processors.sandbox.processor import SandboxProcessor


class FakeCards(SandboxProcessor):
    """The sandbox processor, but cards are the fake company's at `port`. It authenticates no payer."""

    def __init__(self, *given: Any, port: int, **named: Any) -> None:
        super().__init__(*given, **named)
        self._port = port
        self._wires: list[Wire] = []

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        asked = _call("AUTHORIZE", request, amount=request.amount, capture=request.capture)
        said = await self._say(request, msgspec.structs.replace(asked, last4=request.card.number[-4:]))
        return _there(said.authorization).answer

    async def capture(self, request: CaptureRequest) -> CaptureAnswer:
        asked = _call("CAPTURE", request, amount=request.amount, about=request.processor_reference)
        return _there((await self._say(request, asked)).capture)

    async def void(self, request: VoidRequest) -> VoidAnswer:
        return _there((await self._say(request, _call("VOID", request, about=request.processor_reference))).void)

    async def refund(self, request: RefundRequest) -> RefundAnswer:
        asked = _call("REFUND", request, amount=request.amount, about=request.processor_reference)
        return _there((await self._say(request, asked)).refund)

    async def look_up(self, merchant_id: UUID, idempotency_key: str) -> AuthorizationAnswer | None:
        said = await self._look_up("AUTHORIZE", merchant_id, idempotency_key)
        return _there(said.authorization).answer if said else None

    async def look_up_capture(self, merchant_id: UUID, idempotency_key: str) -> CaptureAnswer | None:
        said = await self._look_up("CAPTURE", merchant_id, idempotency_key)
        return _there(said.capture) if said else None

    async def look_up_void(self, merchant_id: UUID, idempotency_key: str) -> VoidAnswer | None:
        said = await self._look_up("VOID", merchant_id, idempotency_key)
        return _there(said.void) if said else None

    async def look_up_refund(self, merchant_id: UUID, idempotency_key: str) -> RefundAnswer | None:
        said = await self._look_up("REFUND", merchant_id, idempotency_key)
        return _there(said.refund) if said else None

    async def _say(self, request: Request, call: Call) -> Said:
        try:
            async with asyncio.timeout((request.deadline_at - datetime.now(UTC)).total_seconds()):
                answer = await self._ask("POST", "/calls", msgspec.json.encode(call))
        except TimeoutError:
            raise ProcessorTimedOut("no answer before the deadline") from None
        return _read(answer, call.key)

    async def _look_up(self, kind: Kind, merchant_id: UUID, key: str) -> Said | None:
        answer = await self._ask("GET", f"/calls/{kind}/{merchant_id}/{key}")
        return None if answer.status == 404 else _read(answer, key)

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        wire = self._wires.pop() if self._wires else Wire()
        try:
            await wire.open(self._port)
            answer = await wire.ask(method, path, "", body)
        except NotSent as fault:
            raise ProcessorUnavailable("nobody there") from fault
        except Lost as fault:
            raise ProcessorTimedOut(str(fault)) from fault
        except BaseException:
            await wire.close()  # an answer may still be on its way to a call that was given up
            raise
        self._wires.append(wire)
        return answer


def _call(kind: Kind, request: Request, **terms: Any) -> Call:
    return Call(kind=kind, merchant_id=request.merchant_id, key=request.idempotency_key, **terms)


def _read(answer: Answer, key: str) -> Said:
    if answer.status != 200:
        raise ProcessorTimedOut(f"it answered {answer.status}")
    try:
        said = msgspec.json.decode(answer.body, type=Said)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ProcessorTimedOut("an answer that cannot be read") from fault
    if said.key != key:
        raise ProcessorTimedOut("an answer to another call")
    return said


def _there(answer: Any) -> Any:
    if answer is None:
        raise ProcessorTimedOut("an answer to another question")
    return answer
