"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def json_option(shape: str) -> Any:
    """Returns the option `--json` of a command that prints one JSON value of this shape, as its help describes it."""
    return typer.Option("--json", help=f"Print JSON: {shape}.")


Host = Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; 0 takes a free one.", show_default="8000")]
Workers = Annotated[
    str | None,
    typer.Option(metavar="NUMBER|auto", help="How many API processes share the port.", show_default="auto"),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="The directory of the embedded Postgres and the sandbox's secrets.", show_default=".ledger"),
]
MerchantId = Annotated[str, typer.Argument(metavar="MERCHANT_ID", help="The merchant's id.")]
