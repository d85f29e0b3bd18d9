"""`ledger jobs`: list, retry. Operators cannot remove a job: what is due stays listed until it is done."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import Recorded, on_connection
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import day_and_time, echo_json, echo_retried, echo_table
from ledger.settings import CannotRun

app = typer.Typer(no_args_is_help=True, help="Work that is due and has failed: list it, retry it.")


@app.command(name="list")
def list_(
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("[{job, givenUp, attempts, nextAt, merchantId, kind, orderId, dueAt}]")] = False,
) -> None:
    """List jobs that have failed: those that wait for their next attempt, and those that were given up."""
    from ledger.background.scheduler.failed_jobs import failed_jobs

    found = on_connection(data_dir, failed_jobs)
    if json:
        echo_json(found)
    elif found:
        rows = [
            (
                str(one.job),
                one.kind,
                str(one.order_id),
                day_and_time(one.due_at),
                str(one.attempts),
                "given up" if one.given_up else day_and_time(one.next_at),
            )
            for one in found
        ]
        echo_table(("JOB", "KIND", "ORDER", "DUE", "ATTEMPTS", "NEXT"), rows)
    else:
        typer.echo("no job has failed")


@app.command()
def retry(
    jobs: Annotated[list[int] | None, typer.Argument(metavar="JOB", help="The jobs, as `list` names them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All jobs that `list` shows.")] = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{retried}, the jobs")] = False,
) -> None:
    """Retry jobs at once, with all their attempts again."""
    from ledger.background.scheduler.failed_jobs import retry_jobs

    if bool(jobs) == every:
        raise CannotRun("name the jobs that `ledger jobs list` shows, or --all of them")
    subject = "all" if every else ", ".join(map(str, jobs or ()))
    recorded = Recorded(operator_of("jobs retry", by, reason), subject)
    retried = on_connection(data_dir, partial(retry_jobs, jobs=None if every else jobs), recorded=recorded)
    unknown = set(jobs or ()) - set(retried)
    if unknown:
        raise CannotRun(f"no such job has failed: {', '.join(map(str, sorted(unknown)))}")
    echo_retried(retried, json=json)
