"""`ledger operations`: what operators have changed by commands that append no event."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ledger.cli.installation import on_connection
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import day_and_time, echo_json, echo_table

app = typer.Typer(no_args_is_help=True, help="The commands of operators that append no event: list them.")


@app.command(name="list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many are listed at most.")] = 100,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("[{at, operator, command, subject, reason}]")] = False,
) -> None:
    """List the newest commands, the newest first: who ran each, when, on what and why.

    A command is recorded before it changes anything, also one that failed. Commands that append events are recorded
    beside these: see `ledger replay`.
    """
    from ledger.journal.operator_commands import recorded_commands

    found = on_connection(data_dir, partial(recorded_commands, limit=limit))
    if json:
        echo_json(found)
    elif found:
        rows = [(day_and_time(one.at), one.operator, one.command, one.subject, one.reason or "") for one in found]
        echo_table(("AT", "OPERATOR", "COMMAND", "SUBJECT", "REASON"), rows)
    else:
        typer.echo("no command is recorded")
