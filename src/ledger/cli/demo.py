"""`ledger demo`: shows what the start of the demo has shown."""

from __future__ import annotations

import typer

from ledger.cli.installation import settings_from
from ledger.cli.options import AsJson, DataDir, Port
from ledger.cli.output import echo_json


def demo(port: Port = None, data_dir: DataDir = None, json: AsJson = False) -> None:
    """Show the addresses, the merchant and the API key of the demo that `ledger serve --demo` has prepared."""
    from ledger.seeding.demo import stored, welcome

    settings = settings_from(port=port, data_dir=data_dir)
    access = stored(settings)
    if json:
        echo_json({"merchantId": access.merchant_id, "apiKey": access.api_key})
    else:
        typer.echo(welcome(settings, access).strip("\n"))
