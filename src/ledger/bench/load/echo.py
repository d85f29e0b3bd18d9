"""The least that Starlette does for a POST: read the body, send it back. The limit of everything that is served here.

The rule a stranger would break: nothing is tuned in it that a newcomer to Starlette would not write, and it runs under the
same server settings as the service.
"""

from __future__ import annotations

import socket
import sys
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ledger.bench.load.processes import end_with_parent


async def echo(request: Request) -> Response:
    """The body again."""
    return Response(await request.body(), media_type="application/json", status_code=201)


app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])


def main() -> None:
    """Serve on a free port of the loopback, print it, and end when standard input ends."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, http="httptools", ws="none", log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
