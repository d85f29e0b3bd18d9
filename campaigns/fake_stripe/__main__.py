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
from collections.abc import Sequence
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
    """The server. It prints its address once it accepts connections."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        sys.stdout.write(f"ready http://127.0.0.1:{port}\n")
        sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.fake_stripe", description=__doc__)
    parser.add_argument("--record", type=Path, default=None)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--account", action="append", default=[])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with Record(options.record) as record:
        app = create_app(record, *(options.account or ["fake"]), seed=options.seed)
        config = uvicorn.Config(
            app,
            host="127.0.0.1",
            port=options.port,
            http=Protocol,
            log_level="warning",
            access_log=False,
            lifespan="on",
        )
        asyncio.run(Server(config).serve())


if __name__ == "__main__":
    main(sys.argv[1:])
