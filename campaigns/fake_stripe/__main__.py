"""`python -m campaigns.fake_stripe --record FILE`: Stripe in a process of its own, on loopback.

It prints `ready http://127.0.0.1:PORT`. `--account NAME` opens an account, more than once for more of them; the keys of `fake` are
`sk_test_fake`, `pk_test_fake`, `sk_live_fake` and `pk_live_fake`. `POST /_test/accounts` opens others later.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from campaigns.fake_stripe.app import create_app
from campaigns.fake_stripe.record import Record
from campaigns.fake_stripe.requests import RESET

_LINGER_NOT = struct.pack("ii", 1, 0)


class Protocol(HttpToolsProtocol):
    """The server's side of a connection, which the application can reset."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {RESET: {RESET: self._reset}}

    def _reset(self) -> None:
        """Ends the connection with RST, as a broken network does."""
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.transport.abort()


class Server(uvicorn.Server):
    """The server. It calls `ready` with its address once it accepts connections."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        self._ready(f"http://127.0.0.1:{port}")


def serving(
    record: Record | None, accounts: Sequence[str], *, port: int = 0, seed: int = 1, ready: Callable[[str], None]
) -> Server:
    """Returns a server of the fake with these accounts. Without a record nothing is kept on the disk."""
    app = create_app(record or Record(None), *accounts, seed=seed)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, http=Protocol, log_level="warning", access_log=False, lifespan="on"
    )
    return Server(config, ready)


def main(arguments: Sequence[str]) -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fake_stripe", description=__doc__)
    parser.add_argument("--record", type=Path, default=None)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--account", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with Record(options.record) as record, suppress(KeyboardInterrupt):
        server = serving(record, options.account or ["fake"], port=options.port, seed=options.seed, ready=_print)
        asyncio.run(server.serve())


def _print(address: str) -> None:
    sys.stdout.write(f"ready {address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
