"""The limit of what is served over HTTP: a Starlette application that reads the body of a POST and sends it back.

Never tune it: it is what a newcomer to Starlette writes, under the service's server settings.
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

from benchmarks.load.processes import end_with_parent


async def echo(request: Request) -> Response:
    """Returns the body."""
    return Response(await request.body(), media_type="application/json", status_code=201)


app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])


def main() -> None:
    """Serves on a free port of the loopback, prints the port, and ends when standard input ends."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, http="httptools", ws="none", log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
