"""`ledger merchants`: create, list, show, rename, close, set.

Programs read the four fields that `create --json` prints: keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledger.bounded_file import TooLarge, read_file
from ledger.cli.attribution import By, Reason, Yes, operator_of, require_confirmation
from ledger.cli.installation import Recorded, on_connection, on_ledger, uuid_of
from ledger.cli.options import DataDir, MerchantId, json_option
from ledger.cli.output import day_and_time, echo_json, echo_table, written
from ledger.domain.merchants.settings import CHOICES
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from ledger.domain.merchants.state import Merchant
    from ledger.operations.context.ledger import Ledger

_BYTES_MAX: Final = 2**20
"""How much a logo, a certificate, its key or its password may have."""

MerchantJson = Annotated[
    bool, json_option("{merchantId, name, createdAt, updatedAt, closedAt, settings}, as `merchants show`")
]

app = typer.Typer(no_args_is_help=True, help="Merchants and their settings.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The merchant's name; need not be unique.")],
    surcharge_rate: Annotated[
        str | None,
        typer.Option(metavar="PCT", help="Surcharge on cards in percent. In Mexico unlawful for consumer sales."),
    ] = None,
    requests_per_minute: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Rate limit per key; 0 means unlimited.", show_default="LEDGER_REQUESTS_PER_MINUTE"
        ),
    ] = None,
    requests_per_second: Annotated[
        str | None,
        typer.Option(metavar="N", help="The same for a single second.", show_default="LEDGER_REQUESTS_PER_SECOND"),
    ] = None,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{merchantId, name, apiKey, environment}")] = False,
) -> None:
    """Register a merchant and print its first API key. It is shown only once."""
    from ledger.domain.merchants.settings import CardEntry, from_texts
    from ledger.operations.merchants.registration import register_merchant
    from ledger.seeding.seed import fresh_keys

    options = {
        "surchargeRate": surcharge_rate,
        "requestsPerMinute": requests_per_minute,
        "requestsPerSecond": requests_per_second,
    }

    async def register(ledger: Ledger, settings: Settings) -> dict[str, str]:
        key = fresh_keys(settings)()
        fields = from_texts({setting: text for setting, text in options.items() if text is not None})
        if settings.environment == "production":  # numbers bring the whole of PCI DSS with them
            fields |= {"card_entry": CardEntry.TOKENS}
        merchant, _ = await register_merchant(ledger, name, key, settings=fields)
        return {
            "merchantId": str(merchant.merchant_id),
            "name": merchant.name,
            "apiKey": key.secret,
            "environment": settings.environment,
        }

    created = on_ledger(data_dir, register, operator_of("merchants create", by, reason), makes_database=True)
    if json:
        echo_json(created)
        return
    typer.echo(f"merchant     {created['merchantId']}  {created['name']}")
    typer.echo(f"API key      {created['apiKey']}")
    typer.echo(f"environment  {created['environment']}")
    typer.echo("The key is shown this once and kept nowhere: store it now. `ledger keys create` makes another.")


@app.command(name="list")
def list_(
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("[{merchantId, name, createdAt, closedAt, settings}]")] = False,
) -> None:
    """List every merchant, the oldest first."""
    from projections.formats import moment, moment_or_null
    from projections.merchants import list_merchants

    merchants = on_connection(data_dir, list_merchants)
    if json:
        echo_json(
            [
                {
                    "merchantId": one.merchant_id,
                    "name": one.name,
                    "createdAt": moment(one.created_at),
                    "closedAt": moment_or_null(one.closed_at),
                    "settings": one.settings,
                }
                for one in merchants
            ]
        )
    elif merchants:
        rows = [
            (str(one.merchant_id), day_and_time(one.created_at), day_and_time(one.closed_at), one.name)
            for one in merchants
        ]
        echo_table(("MERCHANT", "SINCE", "CLOSED", "NAME"), rows)
    else:
        typer.echo("There is no merchant yet: `ledger merchants create NAME` makes one.")


@app.command()
def show(merchant_id: MerchantId, data_dir: DataDir = None, json: MerchantJson = False) -> None:
    """Show a merchant with its settings."""
    from ledger.operations.merchants.registration import merchant_of

    merchant = uuid_of(merchant_id, "merchant")
    _echo(on_ledger(data_dir, lambda ledger, _: merchant_of(ledger, merchant)), json=json)


@app.command()
def rename(
    merchant_id: MerchantId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name; need not be unique.")],
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: MerchantJson = False,
) -> None:
    """Give a merchant another name."""
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import rename_merchant

    actor = Actor(merchant_id=uuid_of(merchant_id, "merchant"))
    operator = operator_of("merchants rename", by, reason)
    merchant = on_ledger(data_dir, lambda ledger, _: rename_merchant(ledger, actor, name), operator).state
    if json:
        _echo(merchant, json=True)
    else:
        typer.echo(f"{merchant.merchant_id}  {merchant.name}")


@app.command()
def close(
    merchant_id: MerchantId,
    yes: Yes = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: MerchantJson = False,
) -> None:
    """Close a merchant for good: all its API keys are revoked and none is issued any more.

    Its orders stay. The service goes on with their captures, refunds, messages and settlements. A second time changes
    nothing.
    """
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import close_merchant

    actor = Actor(merchant_id=uuid_of(merchant_id, "merchant"))
    operator = operator_of("merchants close", by, reason)
    require_confirmation(f"Closing the merchant {actor.merchant_id} revokes all its API keys for good", yes=yes)
    merchant = on_ledger(data_dir, lambda ledger, _: close_merchant(ledger, actor), operator).state
    if json:
        _echo(merchant, json=True)
    else:
        typer.echo(f"{merchant.merchant_id}  {merchant.name}  is closed since {day_and_time(merchant.closed_at)}")


@app.command(name="set")
def set_(
    merchant_id: MerchantId,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help=f"The settings: {CHOICES}.")],
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: MerchantJson = False,
) -> None:
    """Change settings of a merchant. Existing orders keep the terms with which they were created."""
    from ledger.domain.merchants.settings import from_texts
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import change_settings

    merchant = uuid_of(merchant_id, "merchant")
    texts = _pairs(settings)

    async def change(ledger: Ledger, _: Settings) -> Merchant:
        return (await change_settings(ledger, Actor(merchant_id=merchant), from_texts(texts))).state

    _echo(on_ledger(data_dir, change, operator_of("merchants set", by, reason)), json=json)


@app.command(name="set-issuer")
def set_issuer(
    merchant_id: MerchantId,
    *,
    rfc: Annotated[str, typer.Option(metavar="RFC", help="The RFC of the issuer.")],
    tax_system: Annotated[str, typer.Option(metavar="CODE", help="The tax regime (SAT c_RegimenFiscal), as 601.")],
    zip_code: Annotated[str, typer.Option(metavar="CODE", help="The postal code of the place of issue.")],
    certificate: Annotated[Path, typer.Option(metavar="FILE", help="The certificate of digital seal (.cer).")],
    key: Annotated[Path, typer.Option(metavar="FILE", help="Its private key (.key).")],
    password_file: Annotated[Path, typer.Option(metavar="FILE", help="A file with the password of the key.")],
    legal_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name as SAT has it.", show_default="the certificate's")
    ] = None,
    series: Annotated[str, typer.Option(metavar="SERIES", help="The series of the documents.")] = "A",
    public_in_general: Annotated[
        bool, typer.Option("--public-in-general", help="Invoice orders without an RFC to the public in general.")
    ] = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{rfc, legalName, certificateNumber, validFrom, validUntil}")] = False,
) -> None:
    """Set the issuer of a merchant's electronic invoices. A certificate that could not seal is refused."""
    from ledger.domain.orders.invoices.terms import Issuer
    from ledger.invoicing.certificates import CertificateWrong, legal_name_of, open_csd
    from ledger.invoicing.issuers import FoundIssuer
    from ledger.operations.merchants.registration import merchant_of
    from projections.formats import moment

    merchant = uuid_of(merchant_id, "merchant")
    password = _content(password_file).decode(errors="replace").rstrip("\r\n")
    try:
        csd = open_csd(_content(certificate), _content(key), password, rfc=rfc.upper(), at=datetime.now(UTC))
        name = legal_name or legal_name_of(csd)
    except CertificateWrong as wrong:
        raise CannotRun(f"{'--certificate' if wrong.field == 'certificate' else '--key'} {wrong.problem}") from None
    issuer = Issuer(
        rfc=rfc.upper(),
        legal_name=name,
        tax_system=tax_system,
        zip_code=zip_code,
        series=series,
        public_in_general=public_in_general,
    )

    async def store(ledger: Ledger, _: Settings) -> FoundIssuer:
        await merchant_of(ledger, merchant)
        assert ledger.invoicing is not None, "every ledger that is opened has access to stamping"
        return await ledger.invoicing.issuers.set(merchant, issuer, csd)

    recorded = Recorded(operator_of("merchants set-issuer", by, reason), str(merchant))
    found = on_ledger(data_dir, store, recorded=recorded)
    if json:
        echo_json(
            {
                "rfc": found.issuer.rfc,
                "legalName": found.issuer.legal_name,
                "certificateNumber": found.certificate_number,
                "validFrom": moment(found.valid_from),
                "validUntil": moment(found.valid_until),
            }
        )
        return
    typer.echo(f"{found.issuer.rfc}  {found.issuer.legal_name}")
    typer.echo(f"certificate {found.certificate_number}, valid until {day_and_time(found.valid_until)}")


@app.command(name="set-logo")
def set_logo(
    merchant_id: MerchantId,
    image: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A PNG. Without one, the logo is removed.", show_default=False),
    ] = None,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{width, height, bytes}, or null without a logo")] = False,
) -> None:
    """Set or remove the logo on a merchant's printed documents."""
    from ledger.invoicing.logos import LogoWrong, open_logo
    from ledger.operations.merchants.registration import merchant_of

    merchant = uuid_of(merchant_id, "merchant")
    try:
        logo = None if image is None else open_logo(_content(image))
    except LogoWrong as wrong:
        raise CannotRun(f"{image} {wrong}") from None

    async def store(ledger: Ledger, _: Settings) -> None:
        await merchant_of(ledger, merchant)
        assert ledger.invoicing is not None, "every ledger that is opened has access to stamping"
        await ledger.invoicing.issuers.set_logo(merchant, logo)

    on_ledger(data_dir, store, recorded=Recorded(operator_of("merchants set-logo", by, reason), str(merchant)))
    if json:
        echo_json(logo and {"width": logo.width, "height": logo.height, "bytes": len(logo.png)})
    else:
        size = "no logo" if logo is None else f"logo of {logo.width} x {logo.height} pixels, {len(logo.png):,} bytes"
        typer.echo(size)


@app.command(name="month-end")
def month_end(
    merchant_id: MerchantId,
    month: Annotated[str, typer.Argument(metavar="YYYY-MM", help="The month, by the documents' own dates.")],
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_page: Annotated[bool, typer.Option("--page", help="Print a page of HTML.")] = False,
    data_dir: DataDir = None,
    json: Annotated[
        bool, json_option("[{kind, state, currency, documents, total, iva, ieps, ivaWithheld, isrWithheld}]")
    ] = False,
) -> None:
    """Print a month's electronic invoices: the documents per kind and state, with their sums, in major units.

    Documents that are not stamped are listed after them; CSV and JSON have the sums alone.
    """
    from ledger.operations.merchants.registration import merchant_of
    from ledger.operations.orders.invoices.policy import time_zone_of_documents
    from ledger.operations.pipeline.unit_of_work import load_order
    from ledger.postgres.connection import connect
    from projections.orders import missing_documents
    from projections.orders import month_end as report

    merchant = uuid_of(merchant_id, "merchant")
    if re.fullmatch(r"20\d{2}-(0[1-9]|1[0-2])", month, re.ASCII) is None:
        raise CannotRun(f"{month!r} is not a month of 2000 to 2099: months look like 2027-01")
    year, number = map(int, month.split("-"))

    async def read(ledger: Ledger, settings: Settings) -> report.Month:
        known = (await merchant_of(ledger, merchant)).settings.time_zone
        zone = await time_zone_of_documents(ledger, merchant, known)
        assert settings.database_url is not None, "the installation's settings name its database"
        async with await connect(settings.database_url, "ledger-cli") as connection:

            async def rows(statement: str, parameters: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
                return await (await connection.execute(statement.encode(), parameters, binary=True)).fetchall()

            read_order = partial(load_order, ledger, merchant)
            archive = ledger.journal.reader.archive
            return await report.month_of(rows, read_order, archive, merchant, year, number, zone)

    found = on_ledger(data_dir, read)
    lines = found.lines
    if json:
        echo_json(lines)
    elif as_csv:
        typer.echo(report.as_csv(lines), nl=False)
    elif as_page:
        typer.echo(report.as_page(found, f"Electronic invoices {month}"), nl=False)
    else:
        if lines:
            echo_table(_headings(report.COLUMNS), [tuple(report.cells(line)) for line in lines])
        else:
            typer.echo(f"no document was issued in {month}")
        if found.missing:
            typer.echo("\nnot stamped:")
            echo_table(_headings(missing_documents.COLUMNS), [tuple(report.cells(each)) for each in found.missing])
        if found.has_more_missing:
            typer.echo(report.MORE_MISSING)


def _headings(columns: Iterable[str]) -> tuple[str, ...]:
    from projections.orders.month_end import HEADINGS

    return tuple(HEADINGS[name].upper() for name in columns)


def _content(path: Path) -> bytes:
    try:
        return read_file(path, _BYTES_MAX)
    except OSError as refusal:
        raise CannotRun(f"{path} cannot be read: {refusal.strerror}") from None
    except TooLarge as fault:
        raise CannotRun(f"{path} cannot be read: {fault}") from None


def _pairs(arguments: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise CannotRun(f"{argument!r} is not KEY=VALUE")
        if key in texts:
            raise CannotRun(f"{key} is given twice")
        texts[key] = value
    return texts


def _echo(merchant: Merchant, *, json: bool) -> None:
    from msgspec import to_builtins

    from projections.formats import moment, moment_or_null

    if json:
        echo_json(
            {
                "merchantId": merchant.merchant_id,
                "name": merchant.name,
                "createdAt": moment(merchant.registered_at),
                "updatedAt": moment(merchant.updated_at),
                "closedAt": moment_or_null(merchant.closed_at),
                "settings": merchant.settings,
            }
        )
        return
    closed = f", closed {day_and_time(merchant.closed_at)}" if merchant.closed_at else ""
    typer.echo(f"{merchant.merchant_id}  {merchant.name}  since {day_and_time(merchant.registered_at)}{closed}")
    echo_table(("SETTING", "VALUE"), [(name, written(value)) for name, value in to_builtins(merchant.settings).items()])
