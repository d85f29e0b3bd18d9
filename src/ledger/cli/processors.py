"""`ledger processors`: connect, list, check, disconnect: a merchant's accounts with payment processors.

Secret keys come from a file or from standard input, never from an argument: other users of a machine read arguments.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledger.bounded_file import TooLarge, read_file
from ledger.cli.attribution import By, Reason, operator_of
from ledger.cli.installation import on_ledger, uuid_of
from ledger.cli.options import DataDir, MerchantId, json_option
from ledger.cli.output import day_and_time, echo_json, echo_table
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledger.domain.processor_accounts.state import ProcessorAccount
    from ledger.operations.context.ledger import Ledger
    from ledger.operations.processor_accounts.check import AccountCheck

app = typer.Typer(no_args_is_help=True, help="A merchant's accounts with payment processors.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The merchant's own name of the account.")]

_ACCOUNT_JSON: Final = (
    "{name, processor, status, mode, country, methods, publishableKey, messagesUrl, createdAt, updatedAt}"
)
_BYTES_MAX: Final = 2**16
"""How much a file of keys may hold."""
_OPTIONS: Final = {
    "name": "NAME",
    "processor": "--processor",
    "secretKey": "--secret-key-file",
    "webhookSecrets": "--webhook-secret-file",
    "publishableKey": "--publishable-key",
}
"""The options of the fields that can be wrong."""


@app.command()
def connect(
    merchant_id: MerchantId,
    name: Name,
    processor: Annotated[str, typer.Option(metavar="P", help="The processor, as stripe.")],
    secret_key_file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="A file with the secret key; - reads standard input.")
    ] = None,
    webhook_secret_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with the secret that signs messages, or with two, one a line."),
    ] = None,
    publishable_key: Annotated[
        str | None, typer.Option(metavar="K", help="The key for the processor's script in the payer's browser.")
    ] = None,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option(_ACCOUNT_JSON)] = False,
) -> None:
    """Connect an account with a processor, or replace its keys, once the processor has accepted them.

    The account takes all methods that the processor takes there. PUT /v1/processor-accounts/{name} can limit them.
    """
    from api.errors import ApiError
    from api.processor_accounts.fields import parse_account
    from ledger.domain.rejections import InvalidField
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import merchant_of
    from ledger.operations.processor_accounts.account import accounts_of
    from ledger.operations.processor_accounts.connect import ConnectResult, connect_account
    from ledger.processors.registry import KeysUnchecked

    merchant = uuid_of(merchant_id, "merchant")
    keys = _lines(secret_key_file)
    if len(keys) > 1:
        raise CannotRun("--secret-key-file must have one key")
    try:
        request = parse_account(
            name,
            processor=processor,
            secret_key=keys[0] if keys else None,
            webhook_secrets=_lines(webhook_secret_file),
            publishable_key=publishable_key,
        )
    except ApiError as wrong:
        raise CannotRun("; ".join(_option(each.field, each.message) for each in wrong.errors)) from None

    async def work(ledger: Ledger, _: Settings) -> tuple[ConnectResult, str | None]:
        await merchant_of(ledger, merchant)
        try:
            connected = await connect_account(ledger, Actor(merchant_id=merchant), name, request)
        except InvalidField as wrong:
            problems = [_option(each.field, each.problem) for each in (wrong, *wrong.others)]
            raise CannotRun("; ".join(problems)) from None
        except KeysUnchecked:
            raise CannotRun(f"{processor} does not answer, so nothing was stored: try again in a moment") from None
        return connected, accounts_of(ledger).messages_url(merchant, connected.account)

    connected, messages_url = on_ledger(data_dir, work, operator_of("processors connect", by, reason))
    _echo(connected.account, messages_url, json=json)
    if messages_url is not None and not json:
        typer.echo(f"messages to  {messages_url}")


@app.command(name="list")
def list_(
    merchant_id: MerchantId,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option(f"[{_ACCOUNT_JSON}]")] = False,
) -> None:
    """List a merchant's accounts in the order of connection, disconnected ones included."""
    from ledger.operations.merchants.registration import merchant_of
    from ledger.operations.processor_accounts.account import accounts_of, with_built_in

    merchant = uuid_of(merchant_id, "merchant")

    async def read(ledger: Ledger, _: Settings) -> Sequence[tuple[ProcessorAccount, str | None]]:
        await merchant_of(ledger, merchant)
        accounts = accounts_of(ledger)
        found = await with_built_in(ledger, merchant, await accounts.stored(merchant))
        return [(account, accounts.messages_url(merchant, account)) for account in found]

    listed = on_ledger(data_dir, read)
    if json:
        echo_json([_listed(account, messages_url) for account, messages_url in listed])
    elif listed:
        rows = [
            (
                account.name,
                account.processor,
                account.status.value,
                account.terms.mode.value,
                day_and_time(account.created_at),
                ",".join(dict.fromkeys(method.type.value for method in account.terms.methods)),
            )
            for account, _ in listed
        ]
        echo_table(("ACCOUNT", "PROCESSOR", "STATUS", "MODE", "SINCE", "METHODS"), rows)
    else:
        typer.echo("The merchant has no account yet: `ledger processors connect` makes one.")


@app.command()
def check(
    merchant_id: MerchantId,
    name: Name,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{reachable, mode, country, methods, problems}")] = False,
) -> None:
    """Ask the processor about an account. Exits with status 1 if it does not answer or something is wrong."""
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import merchant_of
    from ledger.operations.processor_accounts.check import check_account

    merchant = uuid_of(merchant_id, "merchant")

    async def ask(ledger: Ledger, _: Settings) -> AccountCheck:
        await merchant_of(ledger, merchant)
        return await check_account(ledger, Actor(merchant_id=merchant), name)

    found = on_ledger(data_dir, ask)
    if json:
        echo_json(
            {
                "reachable": found.reachable,
                "mode": found.mode,
                "country": found.country,
                "methods": _methods(found.methods),
                "problems": found.problems,
            }
        )
    else:
        typer.echo("reachable" if found.reachable else "not reachable")
        typer.echo(f"{found.mode}  {found.country or ''}".rstrip())
        for problem in found.problems:
            typer.echo(f"problem: {problem}")
    if found.problems or not found.reachable:
        raise typer.Exit(1)


@app.command()
def disconnect(
    merchant_id: MerchantId,
    name: Name,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option(_ACCOUNT_JSON)] = False,
) -> None:
    """Disconnect an account: it takes no new payments. A second time changes nothing."""
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.registration import merchant_of
    from ledger.operations.processor_accounts.account import accounts_of
    from ledger.operations.processor_accounts.disconnect import disconnect_account

    merchant = uuid_of(merchant_id, "merchant")

    async def work(ledger: Ledger, _: Settings) -> tuple[ProcessorAccount, str | None]:
        await merchant_of(ledger, merchant)
        account = await disconnect_account(ledger, Actor(merchant_id=merchant), name)
        return account, accounts_of(ledger).messages_url(merchant, account)

    _echo(*on_ledger(data_dir, work, operator_of("processors disconnect", by, reason)), json=json)


def _lines(file: str | None) -> list[str]:
    """Returns the lines of a file of keys, without empty ones; none without a file."""
    if file is None:
        return []
    try:
        text = sys.stdin.read() if file == "-" else read_file(Path(file), _BYTES_MAX).decode()
    except OSError as refusal:
        raise CannotRun(f"{file} cannot be read: {refusal.strerror}") from None
    except TooLarge as fault:
        raise CannotRun(f"{file} cannot be read: {fault}") from None
    except UnicodeDecodeError:
        raise CannotRun(f"{file} holds no text") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise CannotRun(f"{'standard input' if file == '-' else file} is empty")
    return lines


def _option(field: str, problem: str) -> str:
    name = field.partition("[")[0]
    return f"{_OPTIONS.get(name, name)} {problem}"


def _echo(account: ProcessorAccount, messages_url: str | None, *, json: bool) -> None:
    if json:
        echo_json(_listed(account, messages_url))
        return
    typer.echo(f"{account.name}  {account.processor}  {account.status}  {account.terms.mode}")


def _listed(account: ProcessorAccount, messages_url: str | None) -> dict[str, Any]:
    from projections.formats import moment

    return {
        "name": account.name,
        "processor": account.processor,
        "status": account.status,
        "mode": account.terms.mode,
        "country": account.terms.country,
        "methods": _methods(account.terms.methods),
        "publishableKey": account.terms.publishable_key,
        "messagesUrl": messages_url,
        "createdAt": moment(account.created_at),
        "updatedAt": moment(account.updated_at),
    }


def _methods(methods: Any) -> Any:
    from msgspec import Raw

    from projections.formats import encode
    from projections.processor_accounts import method_documents

    return Raw(encode(method_documents(methods)))
