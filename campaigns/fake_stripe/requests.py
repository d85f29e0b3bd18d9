"""What becomes of a request to Stripe's interface: key, version, parameters, idempotency, fault, operation, check of the answer."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from campaigns.fake_stripe.accounts import Access, Accounts
from campaigns.fake_stripe.books import Book, Object
from campaigns.fake_stripe.calls import Call
from campaigns.fake_stripe.clock import Clock
from campaigns.fake_stripe.errors import StripeError, invalid
from campaigns.fake_stripe.expansion import expanded
from campaigns.fake_stripe.faults import Fault, Faults
from campaigns.fake_stripe.forms import Tree, decoded
from campaigns.fake_stripe.idempotency import in_use
from campaigns.fake_stripe.record import Record
from campaigns.fake_stripe.routes import PUBLISHABLE, Route, route
from campaigns.fake_stripe.specification import version
from campaigns.fake_stripe.webhooks import is_loopback

RESET: Final = "fake_stripe.reset"
"""The extension by which the server lets an answer be a reset connection."""
_HELD_S: Final = 60.0
_KEPT: Final = {
    "payment_intents": ("payment_intent", "intent"),
    "setup_intents": ("setup_intent", "intent"),
    "refunds": ("refund", "refund"),
    "disputes": ("dispute", "dispute"),
}


class Arrived(Struct, frozen=True, kw_only=True):
    """A request whose key, version and path are right."""

    access: Access
    route: Route
    path: dict[str, str]
    url: str
    tree: Tree
    key: str | None
    id: str
    address: str


class Answer(Struct, frozen=True, kw_only=True):
    """An answer. `original` is the request that it was first given to."""

    status: int
    body: bytes
    original: str | None = None


class Requests:
    """Serves /v1. One request after another takes effect; only faults wait."""

    def __init__(self, accounts: Accounts, clock: Clock, record: Record, faults: Faults) -> None:
        self._accounts = accounts
        self._clock = clock
        self._record = record
        self._faults = faults
        self._late: set[asyncio.Task[None]] = set()
        self._count = 0
        self.served = 0

    async def serve(self, request: Request) -> Response:
        """Answers a request, or resets its connection."""
        self._clock.run_due()
        self._count += 1
        self.served += 1
        request_id = f"req_{self._count:014}"
        key = request.headers.get("idempotency-key") if request.method == "POST" else None
        headers = {"Request-Id": request_id, "Stripe-Version": version(), **({"Idempotency-Key": key} if key else {})}
        try:
            arrived = await self._arrived(request, request_id, key)
        except StripeError as error:
            self._record.write(
                request=request_id, method=request.method, path=request.url.path, key=key, status=error.status
            )
            return _response(Answer(status=error.status, body=_encoded(error.body)), headers)
        fault, seconds = self._faults.take(request.method, request.url.path)
        self._record.write(
            account=arrived.access.book.account,
            request=request_id,
            method=request.method,
            path=request.url.path,
            key=key,
            fault=None if fault is Fault.OK else fault,
        )
        answer = await self._treat(arrived, fault, seconds)
        return await _reset(request) if answer is None else _response(answer, headers)

    async def _arrived(self, request: Request, request_id: str, key: str | None) -> Arrived:
        access = self._accounts.access(request.headers.get("authorization"))
        asked = request.headers.get("stripe-version", version())
        if asked != version():
            raise invalid(f"Invalid Stripe API version: {asked}. This fake has {version()} alone.")
        path = request.url.path
        found = route(request.method, path)
        if found is None:
            raise StripeError(
                404,
                "invalid_request_error",
                f"Unrecognized request URL ({request.method}: {path}). Please see https://stripe.com/docs or we can help at "
                "https://support.stripe.com/.",
            )
        its_route, names = found
        if access.publishable and its_route.operation.name not in PUBLISHABLE:
            raise StripeError(
                401,
                "invalid_request_error",
                "This API call cannot be made with a publishable API key. Please use a secret API key. You can find a list of your API "
                "keys at https://dashboard.stripe.com/account/apikeys.",
                code="secret_key_required",
            )
        return Arrived(
            access=access,
            route=its_route,
            path=names,
            url=path,
            tree=decoded(await _form(request)),
            key=key,
            id=request_id,
            address=str(request.base_url).rstrip("/"),
        )

    async def _treat(self, arrived: Arrived, fault: Fault, seconds: float) -> Answer | None:
        """Returns the answer after the fault, None for a reset connection."""
        match fault:
            case Fault.RESET_BEFORE:
                return None
            case Fault.SILENT_BEFORE:
                await asyncio.sleep(_HELD_S)
                return None
            case Fault.LATE:
                self._apply_late(arrived, seconds)
                return None
            case Fault.RATE_LIMITED | Fault.LOCKED | Fault.CONFLICT:
                error = _passing(fault, arrived.key)
                return Answer(status=error.status, body=_encoded(error.body))
            case _:
                return await self._treat_answer(arrived, fault, seconds)

    async def _treat_answer(self, arrived: Arrived, fault: Fault, seconds: float) -> Answer | None:
        """Returns the answer of a request that is carried out, after the fault; None for a reset connection."""
        answer = await self._perform(arrived, fault, seconds)
        if fault is Fault.SLOW_AFTER:
            await asyncio.sleep(seconds)
        if fault is Fault.SILENT_AFTER:
            await asyncio.sleep(_HELD_S)
        if fault in {Fault.RESET_AFTER, Fault.SILENT_AFTER}:
            return None
        if fault is Fault.GARBAGE:
            return Answer(status=answer.status, body=answer.body[: len(answer.body) // 2])
        return answer

    def _apply_late(self, arrived: Arrived, seconds: float) -> None:
        async def apply() -> None:
            await asyncio.sleep(seconds)
            await self._perform(arrived, Fault.OK, 0.0)

        task = asyncio.create_task(apply())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _perform(self, arrived: Arrived, fault: Fault, seconds: float) -> Answer:
        """Performs the request, or replays the answer that its key has."""
        key, keys = arrived.key, arrived.access.keys
        try:
            parameters = arrived.route.parameters(arrived.tree)
            stored = keys.begin(key, arrived.url, arrived.tree) if key else None
        except StripeError as error:
            return self._checked(arrived, error.status, error.body)
        if stored:
            self._record.write(request=arrived.id, key=key, status=stored.status, replayed=True)
            return Answer(status=stored.status, body=stored.body, original=stored.request)
        try:
            if fault is Fault.SLOW:
                await asyncio.sleep(seconds)
            if fault is Fault.ERROR_BEFORE:
                answer = Answer(status=500, body=_encoded(_broken().body))
            else:
                answer = self._run(arrived, parameters)
            if fault is Fault.ERROR_AFTER:
                answer = Answer(status=500, body=_encoded(_broken().body))
        except BaseException:
            if key:
                keys.forget(key)
            raise
        if key:
            keys.store(key, arrived.id, answer.status, answer.body)
            return Answer(status=answer.status, body=answer.body, original=arrived.id)
        return answer

    def _run(self, arrived: Arrived, parameters: Tree) -> Answer:
        """Runs the operation. What a refused request had begun is undone."""
        book = arrived.access.book
        call = Call(
            book=book,
            parameters=parameters,
            path=arrived.path,
            address=arrived.address,
            publishable=arrived.access.publishable,
        )
        book.request = arrived.id, arrived.key
        try:
            with book.attempt(*_changed(book, arrived)):
                _refuse_far(parameters)
                found = expanded(call, arrived.route.handler(call))
        except StripeError as error:
            return self._checked(arrived, error.status, error.body)
        except Exception:  # noqa: BLE001 - a bug of the fake is an answer too, and is counted
            return self._failed(arrived)
        finally:
            book.request = (None, None)
        return self._checked(arrived, 200, found)

    def _failed(self, arrived: Arrived) -> Answer:
        """Returns the 500 of a bug of this fake, and counts it with the answers outside the description."""
        text = traceback.format_exc()
        sys.stderr.write(text)
        self._record.write(request=arrived.id, key=arrived.key, status=500, violations=[text[-1000:]])
        error = StripeError(500, "api_error", f"fake_stripe has a bug: {text.splitlines()[-1]}")
        return Answer(status=500, body=_encoded(error.body))

    def _checked(self, arrived: Arrived, status: int, body: Object) -> Answer:
        """Returns the answer. One outside Stripe's description is recorded, and is a 500 that says so."""
        found = [] if status == 501 else arrived.route.operation.violations(status, body)
        self._record.write(request=arrived.id, key=arrived.key, status=status, violations=found)
        if found:
            error = StripeError(
                500, "api_error", f"fake_stripe answered outside Stripe's description: {'; '.join(found[:5])}"
            )
            return Answer(status=500, body=_encoded(error.body))
        return Answer(status=status, body=_encoded(body))


def _changed(book: Book, arrived: Arrived) -> list[Object]:
    """Returns the object of the path, which a request may change before it is refused."""
    kind, name = _KEPT.get(arrived.url.split("/")[2], ("", ""))
    found = book.find(kind, arrived.path[name]) if kind and name in arrived.path else None
    return [found] if found else []


def _refuse_far(parameters: Tree) -> None:
    if (url := parameters.get("url")) and not is_loopback(url):
        raise invalid("This fake sends messages to addresses of this machine alone.", "url")


async def _form(request: Request) -> str:
    if request.method != "POST":
        return request.url.query
    kind = request.headers.get("content-type", "application/x-www-form-urlencoded")
    body = await request.body()
    if body and not kind.startswith("application/x-www-form-urlencoded"):
        raise invalid("Invalid request (check that your POST content type is application/x-www-form-urlencoded).")
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise invalid("Invalid request: the body is not UTF-8.") from None


def _passing(fault: Fault, key: str | None) -> StripeError:
    if fault is Fault.CONFLICT:
        return in_use(key or "")
    if fault is Fault.LOCKED:
        return StripeError(
            429,
            "invalid_request_error",
            "This object cannot be accessed right now because another API request or Stripe process is currently accessing it.",
            code="lock_timeout",
        )
    return StripeError(429, "invalid_request_error", "Request rate limit exceeded.", code="rate_limit")


def _broken() -> StripeError:
    return StripeError(500, "api_error", "An unknown error occurred")


def _encoded(body: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(body), indent=2)


def _response(answer: Answer, headers: dict[str, str]) -> Response:
    more = dict(headers)
    if answer.original:
        more["Original-Request"] = answer.original
        if answer.original != headers["Request-Id"]:
            more["Idempotent-Replayed"] = "true"
    return Response(answer.body, answer.status, more, "application/json")


async def _reset(request: Request) -> Response:
    """Resets the connection. What is returned reaches nobody."""
    reset = request.scope.get("extensions", {}).get(RESET, {}).get(RESET)
    if reset is None:
        raise ConnectionResetError("this fault needs the fake's own server")
    reset()
    await asyncio.sleep(0.01)
    return Response()
