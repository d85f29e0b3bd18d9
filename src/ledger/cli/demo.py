"""`ledger demo`: shows what the start of the demo has shown."""

from __future__ import annotations

from typing import Annotated

import typer

from ledger.cli.installation import settings_from
from ledger.cli.options import DataDir, Port, json_option


def demo(
    port: Port = None, data_dir: DataDir = None, json: Annotated[bool, json_option("{merchantId, apiKey}")] = False
) -> None:
    """Show the addresses, the merchant and the API key of the demo that `ledger serve --demo` has prepared."""
    from ledger.seeding.demo import access_as_json, stored, welcome

    settings = settings_from(port=port, data_dir=data_dir)
    access = stored(settings)
    if json:
        typer.echo(access_as_json(access))
    else:
        typer.echo(welcome(settings, access).strip("\n"))
