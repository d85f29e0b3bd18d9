"""The smallest service with the shape of ours, and a program that runs its process tree as `ledger serve` runs the real one."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from starlette.applications import Starlette

from ledger.service.supervisor import ProcessPlan, serve
from ledger.settings import CannotRun, read_settings
from ledger.telemetry.all_processes import all_ready


def create_app(settings):
    """`/` answers with the process id, `/count` writes and counts rows, `/slow` takes a second, `/stuck` a minute, `/die` ends the process."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        status, body = 200, str(os.getpid())
        if scope["path"] in {"/slow", "/stuck"}:
            await asyncio.to_thread(Path(settings.data_dir, "asked").touch)
        if scope["path"] == "/slow":
            await asyncio.sleep(1)
        elif scope["path"] == "/stuck":
            await asyncio.sleep(60)
        elif scope["path"] == "/die":
            os._exit(7)
        elif scope["path"] in {"/role", "/all-ready"}:
            body = settings.database_url if scope["path"] == "/role" else str(all_ready())
        elif scope["path"] == "/count":
            try:
                body = str(await asyncio.to_thread(_count, settings.database_url))
            except psycopg.OperationalError:
                status, body = 503, "no database"
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]}
        )
        await send({"type": "http.response.body", "body": body.encode()})

    return app


async def _lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _count(url):
    with psycopg.connect(url, connect_timeout=2) as connection:
        connection.execute("insert into tally_of_tests default values")
        return connection.execute("select count(*) from tally_of_tests").fetchone()[0]


async def work_without_database(settings, ready, stop):
    """A worker that finds no database."""
    raise psycopg.OperationalError("connection refused\n\tIs the server running?")


def create_app_without_database(settings):
    """An application whose start finds no database."""

    @asynccontextmanager
    async def lifespan(_):
        raise psycopg.OperationalError("connection refused\n\tIs the server running?")
        yield

    return Starlette(lifespan=lifespan)


async def work_with_the_third(settings, ready, stop):
    """A worker that finds the database of a data directory in its third process."""
    if await asyncio.to_thread(_attempts, Path(settings.data_dir, "attempts")) < 3:
        raise psycopg.OperationalError("connection refused")
    await work(settings, ready, stop)


def create_no_app(settings):
    """An application that cannot be made."""
    raise SystemExit(3)


async def work(settings, ready, stop):
    """A worker that does nothing but leave a note of its clean end."""
    ready()
    await stop.wait()
    await asyncio.to_thread(Path(settings.data_dir, "worker.done").write_text, "clean")


async def work_once(settings, ready, stop):
    """A worker that ends before it is ready, except for the first of a data directory."""
    if await asyncio.to_thread(_attempts, Path(settings.data_dir, "attempts")) > 1:
        os._exit(9)
    await work(settings, ready, stop)


def _attempts(file):
    with file.open("a") as attempts:
        return attempts.write("x") and attempts.tell()


def prepare(settings):
    """The set-up: makes the table that `/count` writes to."""
    with psycopg.connect(settings.database_url.replace(_user(settings), "ledger")) as connection:
        connection.execute("create table if not exists tally_of_tests (n int8 generated always as identity)")
        connection.execute("grant all on tally_of_tests to public")
    sys.stdout.write(f"prepared for port {settings.port}\n")


def _user(settings):
    return psycopg.conninfo.conninfo_to_dict(settings.database_url)["user"]


if __name__ == "__main__":
    here = "tests.service.stand_ins"
    parts = {"api": f"{here}:create_app", "worker": f"{here}:work", "setup": f"{here}:prepare"}
    parts |= dict(pair.split("=") for pair in sys.argv[1:] if "=" in pair)
    tree = ProcessPlan(
        name="ledger serve",
        shares_database="--share" in sys.argv,
        **{name: target or None for name, target in parts.items()},
    )
    try:
        sys.exit(serve(read_settings(os.environ), tree))
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        sys.exit(1)
