"""`ledger seed`: runs a scenario file. It may be run again at any time: what exists stays as it is."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import with_database
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import echo_json
from ledger.settings import Settings

if TYPE_CHECKING:
    from ledger.seeding.runner import RunReport


def seed(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario: JSON Lines, one request per line.")],
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool, json_option("{lines, new, known, declined, keys}; each of keys is {merchantId, apiKey}")
    ] = False,
) -> None:
    """Run a scenario in the sandbox: requests with their times. A second run changes nothing."""
    from ledger.seeding.seed import seed as run_file

    operator = operator_of("seed", by, reason)

    async def run(settings: Settings) -> RunReport:
        return await run_file(settings, file, operator=operator)

    began = perf_counter()
    report = with_database(data_dir, run, makes_database=True)
    known = report.lines - report.new
    if json:
        keys = [{"merchantId": merchant, "apiKey": secret} for merchant, secret in report.keys.items()]
        echo_json({"lines": report.lines, "new": report.new, "known": known, "declined": report.declined, "keys": keys})
        return
    typer.echo(
        f"{report.lines} lines in {perf_counter() - began:.1f} s: {report.new} new ({report.declined} of them declined"
        f" payments), {known} already there"
    )
    for merchant, secret in report.keys.items():
        typer.echo(f"merchant {merchant} has the API key {secret} (shown this once)")
