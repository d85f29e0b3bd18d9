"""`ledger rebuild`: the read models from the log, in place."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import Recorded, exits_2_if_it_cannot_run, uuid_of, with_database
from ledger.cli.options import DataDir, json_option
from ledger.cli.output import echo_json, echo_table
from ledger.cli.progress_bar import progress_bar
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from pathlib import Path

    from ledger.backup.rebuild import Rebuild
    from ledger.journal.operator import Operator

_NONE: Final = "-"


def rebuild(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="The tables; by default every read model.")
    ] = None,
    merchant: Annotated[
        str | None, typer.Option(metavar="MERCHANT_ID", help="The merchant; by default each one.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare only: exit 1 if a row differs, 2 if it could not.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --check: name the first 20 orders whose status or money differs.")
    ] = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "{tables, orders}; each of tables is {table, rows, differing}, each of orders {merchantId, orderId, field, "
            "stored, computed}"
        ),
    ] = False,
) -> None:
    """Compute the read models from the log again, and correct each row that differs, beside the service.

    What this release shows otherwise than the one before is written so, and what was changed by hand is as the log has
    it; rows that follow from no event go. It may be ended and run again, and a second run changes nothing. With --check
    it writes nothing: before an upgrade, run so by the new release, it shows what that one would change.
    """
    with exits_2_if_it_cannot_run() if check else nullcontext():
        differs = _rebuild(
            tables, merchant, operator_of("rebuild", by, reason), data_dir, check=check, explain=explain, json=json
        )
    if check and differs:
        raise typer.Exit(1)


def _rebuild(
    tables: list[str] | None,
    merchant: str | None,
    operator: Operator,
    data_dir: Path | None,
    *,
    check: bool,
    explain: bool,
    json: bool,
) -> bool:
    """Prints the rows that differ, corrected unless it is to `check` only. Returns whether there are any."""
    from ledger.backup.comparison import EXPLAINED_MAX
    from ledger.backup.log_reader import log_reader
    from ledger.backup.rebuild import rebuild as run
    from projections.read_models import NAMES

    chosen = tables or list(NAMES)
    if unknown := [name for name in chosen if name not in NAMES]:
        raise CannotRun(f"there is no read model {unknown[0]!r}: {', '.join(NAMES)}")
    if explain and not check:
        raise CannotRun("--explain needs --check: a rebuild corrects what it finds")
    merchant_id = None if merchant is None else uuid_of(merchant, "merchant")

    async def work(settings: Settings) -> Rebuild:
        url = settings.database_url
        assert url is not None, "the installation's settings name its database"
        reader = log_reader(settings, url)
        return await run(url, reader, tables=chosen, merchant_id=merchant_id, writes=not check, progress=progress)

    subject = " ".join([*(tables or ()), *([] if merchant_id is None else [f"of merchant {merchant_id}"])])
    recorded = None if check else Recorded(operator, subject)
    with progress_bar() as progress:
        found = with_database(data_dir, work, recorded=recorded)
    orders = found.orders if explain else []
    if json:
        echo_json({"tables": found.tables, "orders": orders})
    else:
        heading = "DIFFERING" if check else "CORRECTED"
        rows = [(each.table, str(each.rows), str(each.differing)) for each in found.tables]
        echo_table(("TABLE", "ROWS", heading), rows)
        if orders:
            cells = [(str(e.order_id), e.field, e.stored or _NONE, e.computed or _NONE) for e in orders]
            typer.echo(f"\nthe first orders, at most {EXPLAINED_MAX}, whose status or money differs:")
            echo_table(("ORDER", "FIELD", "STORED", "BY THE LOG"), cells)
    return found.differs
