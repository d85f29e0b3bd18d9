"""The ledger's client of the fake processor: a card processor that calls it over HTTP and checks every answer.

Only a connection that could not be opened means "not sent". A reset, a time-out, an error, a broken answer and an
answer to another key all leave the outcome unknown.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec

from campaigns.chaos.wire import Answer, Lost, NotSent, Wire
from campaigns.fake_processor.modes import Call, CallAnswer, Kind
from ledger.domain.orders.processor_outcomes import CaptureAnswer, RefundAnswer, VoidAnswer
from ledger.processors.contract import (
    AuthorizationAnswer,
    AuthorizationRequest,
    CaptureRequest,
    LookUpRequest,
    ProcessorTimedOut,
    ProcessorUnavailable,
    RefundRequest,
    Request,
    VoidRequest,
)
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.processors.sandbox.test_cards import number_of


class FakeCards(SandboxProcessor):
    """The sandbox processor, with cards charged by the fake processor at `port`. It authenticates no payer."""

    def __init__(self, *given: Any, port: int, can_fence: bool = False, **named: Any) -> None:
        super().__init__(*given, **named)
        self.capabilities = msgspec.structs.replace(self.capabilities, can_fence=can_fence, late_arrival_s=0.0)
        self._port = port
        self._wires: list[Wire] = []

    async def authorize(self, request: AuthorizationRequest) -> AuthorizationAnswer:
        last4 = number_of(request.card)[-4:]
        call = _call("AUTHORIZE", request, amount=request.amount, capture=request.capture, last4=last4)
        return ((await self._send(request, call)).authorization or _unexpected()).answer

    async def capture(self, request: CaptureRequest) -> CaptureAnswer:
        call = _call("CAPTURE", request, amount=request.amount, about=request.processor_reference)
        return (await self._send(request, call)).capture or _unexpected()

    async def void(self, request: VoidRequest) -> VoidAnswer:
        call = _call("VOID", request, about=request.processor_reference)
        return (await self._send(request, call)).void or _unexpected()

    async def refund(self, request: RefundRequest) -> RefundAnswer:
        call = _call("REFUND", request, amount=request.amount, about=request.processor_reference)
        return (await self._send(request, call)).refund or _unexpected()

    async def look_up(self, request: LookUpRequest) -> AuthorizationAnswer | None:
        answer = await self._looked_up("AUTHORIZE", request)
        return (answer.authorization or _unexpected()).answer if answer else None

    async def look_up_capture(self, request: LookUpRequest) -> CaptureAnswer | None:
        answer = await self._looked_up("CAPTURE", request)
        return (answer.capture or _unexpected()) if answer else None

    async def look_up_void(self, request: LookUpRequest) -> VoidAnswer | None:
        answer = await self._looked_up("VOID", request)
        return (answer.void or _unexpected()) if answer else None

    async def look_up_refund(self, request: LookUpRequest) -> RefundAnswer | None:
        answer = await self._looked_up("REFUND", request)
        return (answer.refund or _unexpected()) if answer else None

    async def _send(self, request: Request, call: Call) -> CallAnswer:
        try:
            async with asyncio.timeout((request.deadline_at - datetime.now(UTC)).total_seconds()):
                answer = await self._ask("POST", "/calls", msgspec.json.encode(call))
        except TimeoutError:
            raise ProcessorTimedOut("no answer before the deadline") from None
        return _read(answer, call.key)

    async def _looked_up(self, kind: Kind, request: LookUpRequest) -> CallAnswer | None:
        key = request.idempotency_key
        answer = await self._ask("GET", f"/{'fences' if request.fence else 'calls'}/{kind}/{request.merchant_id}/{key}")
        return None if answer.status == 404 else _read(answer, key)

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        wire = self._wires.pop() if self._wires else Wire()
        try:
            await wire.open(self._port)
            answer = await wire.ask(method, path, "", body)
        except NotSent as fault:
            raise ProcessorUnavailable("the fake processor does not accept connections") from fault
        except Lost as fault:
            raise ProcessorTimedOut(str(fault)) from fault
        except BaseException:
            await wire.close()  # the answer to a call that timed out may still arrive on it
            raise
        self._wires.append(wire)
        return answer


def _call(kind: Kind, request: Request, **terms: Any) -> Call:
    return Call(kind=kind, merchant_id=request.merchant_id, key=request.idempotency_key, **terms)


def _read(answer: Answer, key: str) -> CallAnswer:
    if answer.status != 200:
        raise ProcessorTimedOut(f"it answered {answer.status}")
    try:
        call_answer = msgspec.json.decode(answer.body, type=CallAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ProcessorTimedOut("the answer is unreadable") from fault
    if call_answer.key != key:
        raise ProcessorTimedOut("the answer is to another call")
    return call_answer


def _unexpected() -> NoReturn:
    raise ProcessorTimedOut("the answer is to a call of another kind")
