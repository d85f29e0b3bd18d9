"""Builds the commands of `ledger` once, for all processes that are forked: typer builds all of them for each run."""

from functools import cache

import typer

from ledger.cli.main import app

typer.main.get_command = cache(typer.main.get_command)
typer.main.get_command(app)
