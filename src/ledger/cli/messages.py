"""`ledger messages`: list, retry. Operators cannot remove a message: it stays listed until an order has recorded it."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ledger.cli.installation import on_connection
from ledger.cli.options import AsJson, DataDir
from ledger.cli.output import day_and_time, echo_json, echo_retried, echo_table
from ledger.settings import CannotRun

app = typer.Typer(
    no_args_is_help=True, help="Messages of processors that no order has recorded: list them, retry them."
)

Ids = Annotated[list[str] | None, typer.Argument(metavar="MESSAGE…", help="The messages, as `list` names them.")]


@app.command(name="list")
def list_(data_dir: DataDir = None, json: AsJson = False) -> None:
    """List the messages, the oldest first: what each is about, when it is tried next, and what it waits for."""
    from ledger.background.inbox.pending import pending_messages

    found = on_connection(data_dir, pending_messages)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                one.message,
                one.processor,
                one.kind,
                str(one.order_id or ""),
                day_and_time(one.received_at),
                str(one.tries),
                "set aside" if one.set_aside else day_and_time(one.next_at),
                one.waits_for or "",
            )
            for one in found
        ]
        echo_table(("MESSAGE", "PROCESSOR", "KIND", "ORDER", "RECEIVED", "TRIES", "NEXT", "WAITS FOR"), rows)
    else:
        typer.echo("no message waits for an order")


@app.command()
def retry(
    messages: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="All messages that `list` shows.")] = False,
    data_dir: DataDir = None,
    json: AsJson = False,
) -> None:
    """Retry messages at once, those that were set aside included."""
    from ledger.background.inbox.pending import retry_messages

    if bool(messages) == every:
        raise CannotRun("name the messages that `ledger messages list` shows, or --all of them")
    retried = on_connection(data_dir, partial(retry_messages, messages=None if every else messages))
    unknown = set(messages or ()) - set(retried)
    if unknown:
        raise CannotRun(f"no such message waits: {', '.join(sorted(unknown))}")
    echo_retried(retried, json=json)
