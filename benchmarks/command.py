"""`python -m benchmarks`: the ledger's speed on this machine, as ratios to limits measured in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ledger.cli.options import DataDir, json_option


def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            help="journal, peers, http, profile, growth, search, ceiling, documents, renewals, renewal-day, processors, "
            "webhooks, keys, rebuild, audit, replica, past, sealing or citus; without it, all of them."
        ),
    ] = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("what was measured")] = False,
    seconds: Annotated[float, typer.Option(min=0.2, help="How long each sample takes.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="How many samples of each are taken, in turns.")] = 3,
    events: Annotated[
        int, typer.Option(min=1, help="How many events the largest size of `growth` has, and the log of `audit`.")
    ] = 1_000_000,
    subscriptions: Annotated[
        int | None, typer.Option(min=1, help="How many subscriptions are due at one moment. [default: 1000 and 10000]")
    ] = None,
    missed: Annotated[
        int, typer.Option(min=100, help="How many messages the endpoints of `webhooks` get that are enabled again.")
    ] = 10_000,
    node_modules: Annotated[
        Path | None, typer.Option(help="The folder with the npm packages of message-db and Emmett, for `peers`.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="The SVG file that `growth` draws its curves into.")] = None,
) -> None:
    """Measure the journal, HTTP, lists, documents, renewals, processors and webhooks, in turn with their limits. Takes minutes."""
    from benchmarks.run import bench as measure
    from ledger.cli.installation import settings_from

    measure(
        settings_from(data_dir=data_dir),
        name,
        json=json,
        seconds=seconds,
        rounds=rounds,
        events=events,
        subscriptions=subscriptions,
        missed=missed,
        node_modules=node_modules,
        picture=picture,
    )
