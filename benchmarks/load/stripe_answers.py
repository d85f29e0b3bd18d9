"""A server that repeats the answers of the fake of Stripe, at once or later, each with an id of its own.

The fake checks every request against Stripe's description and keeps what happened, which costs more processor time than
the client that is measured. So its answers are taken once, when the server starts, and only their ids change.

It prints its address. `GET /answers-after/SECONDS` sets how long an answer takes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from itertools import count
from typing import Final, cast
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from campaigns.fake_stripe.running import fake_stripe_here

from benchmarks.load import order_body
from benchmarks.load.processes import end_with_parent, event_loop

KEY: Final = "sk_test_fake"
TOKEN: Final = "pm_card_visa"  # noqa: S105 - Stripe's name of a test card
INTENTS: Final = "/v1/payment_intents"
PAUSE_PATH: Final = "/answers-after/"

_END_OF_HEAD: Final = b"\r\n\r\n"
_NOT_FOUND: Final = b'{"error":{"type":"invalid_request_error","message":"The benchmark has no such answer."}}'


class Answers:
    """What the fake answers, by method and path. `created` and `confirmed` are those of the intent `intent_id`."""

    def __init__(self, address: str) -> None:
        self._address = address
        created = self._ask(
            INTENTS,
            {
                "amount": str(order_body.BODY["amount"]),
                "currency": "mxn",
                "capture_method": "automatic",
                "payment_method_types[0]": "card",
                "metadata[ledger_key]": "019ab3c0-0000-7000-8000-000000000001",
            },
        )
        self._intent_id: bytes = json.loads(created)["id"].encode()
        confirm = f"{INTENTS}/{self._intent_id.decode()}/confirm"
        confirmed = self._ask(confirm, {"payment_method": TOKEN, "off_session": "true", "expand[0]": "latest_charge"})
        self._created, self._confirmed = created, confirmed
        self._read = {path: self._ask(path) for path in ("/v1/account", f"/v1/payment_methods/{TOKEN}")}
        self._numbers = count(1)

    def answer(self, method: bytes, path: str) -> tuple[int, bytes]:
        """Returns the status and the body of an answer."""
        if method == b"POST" and path == INTENTS:
            return 200, self._created.replace(self._intent_id, b"pi_%024d" % next(self._numbers))
        before, _, action = path.rpartition("/")
        if method == b"POST" and action == "confirm":
            return 200, self._confirmed.replace(self._intent_id, before.rpartition("/")[2].encode())
        read = self._read.get(path)
        return (404, _NOT_FOUND) if read is None or method != b"GET" else (200, read)

    def _ask(self, path: str, form: Mapping[str, str] | None = None) -> bytes:
        """Returns what the fake answers. Raises HTTPError if it refuses the request."""
        headers = {"Authorization": f"Bearer {KEY}"}
        body = None if form is None else urlencode(form).encode()
        with urlopen(Request(f"{self._address}{path}", body, headers)) as answer:  # noqa: S310 - the fake
            return cast("bytes", answer.read())


class Connection(asyncio.Protocol):
    """A kept-alive connection with one request at a time."""

    def __init__(self, answers: Answers, pause: list[float]) -> None:
        self._answers = answers
        self._pause = pause
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ended, body = self._received.partition(_END_OF_HEAD)
        if not ended or len(body) < _content_length(head):
            return
        self._received = b""
        method, target, _ = head.split(b" ", 2)
        path = target.partition(b"?")[0].decode()
        if path.startswith(PAUSE_PATH):
            self._pause[0] = float(path.removeprefix(PAUSE_PATH))
            self._send(200, b"{}")
        elif self._pause[0]:
            asyncio.get_running_loop().call_later(self._pause[0], self._send, *self._answers.answer(method, path))
        else:
            self._send(*self._answers.answer(method, path))

    def _send(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


def _content_length(head: bytes) -> int:
    at = head.lower().find(b"\r\ncontent-length:")
    return 0 if at < 0 else int(head[at + 17 :].partition(b"\r")[0])


async def serve() -> None:
    """Serves on a free port of the loopback, prints the address, and ends when standard input ends."""
    with fake_stripe_here() as address:
        answers = Answers(address)
    pause = [0.0]
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(answers, pause), "127.0.0.1", 0, backlog=2048
    )
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    event_loop()(serve())
