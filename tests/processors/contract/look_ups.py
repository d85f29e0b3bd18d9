"""Cases of calls whose answer is not there, for each call that moves money: what a look-up finds, and what it fences.

`Call` says how a call is prepared, sent and looked up, so that every case holds for every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from tests.processors.contract.account import AccountUnderTest, CardKind, Loss, Need, timeless
from tests.processors.contract.cases import Run, add_case, failure_of, outcome_of

from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, Request

Effect = tuple[str, int, int, bool]


class Call(Struct, frozen=True, kw_only=True):
    """A call. `prepare` makes its request, after what has to be there before.

    `captured`, `refunded` and `voided` are what records list of it.
    """

    name: str
    send: str
    look_up: str
    prepare: Callable[[AccountUnderTest], Awaitable[Any]]
    captured: int = 0
    refunded: int = 0
    voided: bool = False
    needs: tuple[Need | CardKind, ...] = (CardKind.APPROVED,)

    def sent(self, at: AccountUnderTest, request: Request) -> Awaitable[Any]:
        return _timeless(getattr(at.processor, self.send)(request))

    def found(self, at: AccountUnderTest, request: Request, **given: Any) -> Awaitable[Any]:
        return _timeless(getattr(at.processor, self.look_up)(at.question(request, **given)))

    def effects(self, request: Request) -> list[Effect]:
        """Returns what records list of the call."""
        if not (self.captured or self.refunded or self.voided):
            return []
        return [(request.idempotency_key, self.captured, self.refunded, self.voided)]


async def _timeless(answer: Awaitable[Any]) -> Any:
    return timeless(await answer)


async def _held(at: AccountUnderTest) -> Any:
    return await at.payment(capture=False)


async def _captured(at: AccountUnderTest) -> Any:
    return await at.payment()


async def _capture(at: AccountUnderTest) -> Any:
    return at.capture(await at.authorized())


async def _part(at: AccountUnderTest) -> Any:
    return at.capture(await at.authorized(), 6_000, final=True)


async def _void(at: AccountUnderTest) -> Any:
    return at.void(await at.authorized())


async def _refund(at: AccountUnderTest) -> Any:
    return at.refund(await at.captured(), 4_000)


async def _reference(at: AccountUnderTest) -> Any:
    return at.reference()


async def _voucher(at: AccountUnderTest) -> Any:
    return at.reference(MethodType.PAYCASH)


CALLS: Final = (
    Call(name="a held payment", send="authorize", look_up="look_up", prepare=_held),
    Call(name="a captured payment", send="authorize", look_up="look_up", prepare=_captured, captured=10_000),
    Call(name="a capture", send="capture", look_up="look_up_capture", prepare=_capture, captured=10_000),
    Call(name="a capture of a part", send="capture", look_up="look_up_capture", prepare=_part, captured=6_000),
    Call(name="a void", send="void", look_up="look_up_void", prepare=_void, voided=True),
    Call(name="a refund", send="refund", look_up="look_up_refund", prepare=_refund, refunded=4_000),
    Call(
        name="a transfer's reference",
        send="issue_reference",
        look_up="look_up_reference",
        prepare=_reference,
        needs=(Need.SPEI,),
    ),
    Call(
        name="a store's reference",
        send="issue_reference",
        look_up="look_up_reference",
        prepare=_voucher,
        needs=(Need.PAYCASH,),
    ),
)

Check = Callable[[Call, AccountUnderTest], Awaitable[None]]


async def _recorded_nothing(call: Call, at: AccountUnderTest, before: list[Effect]) -> None:
    assert await at.done() == before, f"{call.name} had an effect"


async def _recorded_once(call: Call, at: AccountUnderTest, request: Request, before: list[Effect]) -> None:
    assert await at.done() == sorted([*before, *call.effects(request)])


async def is_found_with_its_answer_and_not_before(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    assert await call.found(at, request) is None
    await _recorded_nothing(call, at, before)
    answer = await call.sent(at, request)
    assert await call.found(at, request) == answer
    assert await call.found(at, request) == answer
    await _recorded_once(call, at, request, before)


async def is_refused_once_it_is_fenced(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    for _ in range(2):
        assert await call.found(at, request, fence=True) is None
    for _ in range(2):
        assert isinstance(await failure_of(call.sent(at, request)), ProcessorUnavailable)
        assert await call.found(at, request) is None
    assert await call.found(at, request, fence=True) is None
    await _recorded_nothing(call, at, before)


async def keeps_its_answer_when_it_is_fenced_afterwards(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    answer = await call.sent(at, request)
    for _ in range(2):
        assert await call.found(at, request, fence=True) == answer
    assert await call.sent(at, request) == answer
    await _recorded_once(call, at, request, before)


async def or_its_fence_is_first(call: Call, at: AccountUnderTest) -> None:
    for _ in range(3):
        request = await call.prepare(at)
        before = await at.done()
        answer, found = await asyncio.gather(
            outcome_of(call.sent(at, request)), outcome_of(call.found(at, request, fence=True))
        )
        if isinstance(found, ProcessorTimedOut | ProcessorUnavailable):
            found = await call.found(at, request, fence=True)
        if isinstance(answer, ProcessorTimedOut):
            answer = found or ProcessorUnavailable("not carried out, as the look-up says")
        assert (found is None) is isinstance(answer, ProcessorUnavailable), (answer, found)
        assert found is None or found == answer
        if found is None:
            await _recorded_nothing(call, at, before)
        else:
            await _recorded_once(call, at, request, before)


async def whose_answer_is_lost_is_found(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    async with at.losing(Loss.ANSWER) as deadline_s:
        assert isinstance(await failure_of(call.sent(at, _within(request, deadline_s))), ProcessorTimedOut)
    found = await call.found(at, request, fence=True)
    if found is None:  # it may also have been too late to be carried out
        await _recorded_nothing(call, at, before)
        return
    assert await call.sent(at, request) == found, "sent again, it has that answer"
    await _recorded_once(call, at, request, before)


async def that_is_lost_has_no_effect(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    async with at.losing(Loss.REQUEST) as deadline_s:
        await failure_of(call.sent(at, _within(request, deadline_s)))
    assert await call.found(at, request) is None
    await _recorded_nothing(call, at, before)
    answer = await call.sent(at, request)
    assert await call.found(at, request) == answer, "sent again, it is carried out"
    await _recorded_once(call, at, request, before)


async def that_was_announced_long_ago_is_found(call: Call, at: AccountUnderTest) -> None:
    """The processor may have forgotten the key, so nothing is sent under it: what was done is found in lists."""
    request = await call.prepare(at)
    request = replace(request, idempotency_key=f"long-ago-{request.idempotency_key}")
    before = await at.done()
    sent = at.posts()
    assert await call.found(at, request, long_ago=True) is None
    assert at.posts() == sent
    answer = await call.sent(at, request)
    sent = at.posts()
    found = await call.found(at, request, long_ago=True)
    assert found == answer
    assert at.posts() == sent
    await _recorded_once(call, at, request, before)


async def that_fails_and_is_not_carried_out_is_carried_out_once(call: Call, at: AccountUnderTest) -> None:
    """The processor repeats its failure under the key of the request."""
    await _failing(call, at, carried_out=False)


async def that_fails_and_is_carried_out_is_found(call: Call, at: AccountUnderTest) -> None:
    """The processor repeats its failure under the key of the request, and the look-up finds the effect all the same."""
    await _failing(call, at, carried_out=True)


async def _failing(call: Call, at: AccountUnderTest, *, carried_out: bool) -> None:
    request = await call.prepare(at)
    before = await at.done()
    async with at.failing(carried_out=carried_out):
        assert isinstance(await failure_of(call.sent(at, request)), ProcessorTimedOut)
    found = await call.found(at, request)
    assert (found is not None) is carried_out, found
    if found is not None:
        await _recorded_once(call, at, request, before)
        return
    again = await outcome_of(call.sent(at, request))
    found = await call.found(at, request, fence=True)
    if isinstance(
        again, ProcessorTimedOut
    ):  # the failure is repeated for a day: the look-up says that nothing was done
        assert found is None
        await _recorded_nothing(call, at, before)
    else:
        assert found == again
        await _recorded_once(call, at, request, before)


async def whose_deadline_has_passed_is_carried_out_whole_or_not(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    failure = await failure_of(call.sent(at, _within(request, -1)))
    found = await call.found(at, request, fence=at.processor.capabilities.can_fence)
    if found is None:
        await _recorded_nothing(call, at, before)
        return
    assert isinstance(failure, ProcessorTimedOut), "what is unavailable has no effect"
    await _recorded_once(call, at, request, before)


async def that_cannot_be_sent_has_no_effect(call: Call, at: AccountUnderTest) -> None:
    request = await call.prepare(at)
    before = await at.done()
    async with at.away() as away:
        for _ in range(2):
            failure = await failure_of(getattr(away, call.send)(_within(request, 20)))
            assert isinstance(failure, ProcessorUnavailable), failure
    assert await call.found(at, request) is None
    await _recorded_nothing(call, at, before)
    answer = await call.sent(at, _within(request, 20))
    assert await call.found(at, request) == answer
    await _recorded_once(call, at, request, before)


def _within(request: Any, seconds: float) -> Any:
    return replace(request, deadline_at=datetime.now(UTC) + timedelta(seconds=seconds))


CHECKS: Final[tuple[tuple[Check, tuple[Need, ...]], ...]] = (
    (is_found_with_its_answer_and_not_before, ()),
    (is_refused_once_it_is_fenced, (Need.FENCES,)),
    (keeps_its_answer_when_it_is_fenced_afterwards, (Need.FENCES,)),
    (or_its_fence_is_first, (Need.FENCES,)),
    (whose_answer_is_lost_is_found, (Need.FENCES,)),
    (that_is_lost_has_no_effect, (Need.LOSES_REQUESTS,)),
    (that_was_announced_long_ago_is_found, ()),
    (that_fails_and_is_not_carried_out_is_carried_out_once, (Need.STORES_FAILURES, Need.FENCES)),
    (that_fails_and_is_carried_out_is_found, (Need.STORES_FAILURES,)),
    (whose_deadline_has_passed_is_carried_out_whole_or_not, ()),
    (that_cannot_be_sent_has_no_effect, ()),
)


def _bound(check: Check, call: Call) -> Run:
    async def run(at: AccountUnderTest) -> None:
        await check(call, at)

    return run


for _call in CALLS:
    for _check, _needs in CHECKS:
        _name = f"{_call.name} {_check.__name__}".replace(" ", "_")
        add_case(_name, _bound(_check, _call), *_needs, *_call.needs, call=_call.name)
