"""`ledger keys`: create, list, rotate, revoke; and rewrap, which is about the keys that seal personal data.

A merchant may have several valid API keys, so that one can replace another. A key's secret is printed once, by the
command that makes it, and is not stored.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final
from uuid import UUID

import typer

from ledger.cli.attribution import By, Reason, Yes, operator_of, require_confirmation
from ledger.cli.installation import Recorded, on_connection, on_ledger, time_of, uuid_of, with_database
from ledger.cli.options import DataDir, MerchantId, json_option
from ledger.cli.output import counted, day_and_time, echo_json, echo_table
from ledger.security.api_keys import OVERLAP_MAX_S, OVERLAP_S, Scope
from ledger.settings import CannotRun, Settings

if TYPE_CHECKING:
    from ledger.domain.merchants.state import ApiKey
    from ledger.operations.context.ledger import Ledger
    from ledger.postgres.connection import Connection
    from projections.merchants import ListedKey

KeyId = Annotated[str, typer.Argument(metavar="KEY_ID", help="The key's id, as `list` shows it.")]

NewKeyJson = Annotated[bool, json_option("{keyId, merchantId, apiKey, name, scopes, expiresAt}")]
_KEY_JSON: Final = (
    "{keyId, hint, state, name, scopes, createdAt, expiresAt, revokedAt, replacedBy, lastUsedAt}, in which state is live, "
    "expired or revoked"
)

app = typer.Typer(no_args_is_help=True, help="The API keys of a merchant; and the keys that seal personal data.")


@app.command()
def create(
    merchant_id: MerchantId,
    name: Annotated[str | None, typer.Option(metavar="N", help="A name of the key, for people.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="S", help=f"What the key allows; may be repeated: {', '.join(Scope)}.", show_default="everything"
        ),
    ] = None,
    expires_at: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="The time until which the key is valid, as 2027-01-31T12:00:00Z.", show_default="for ever"
        ),
    ] = None,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: NewKeyJson = False,
) -> None:
    """Issue a further API key and print it. It is shown only once."""
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.api_keys import issue_key
    from ledger.seeding.seed import fresh_keys

    merchant, scopes = uuid_of(merchant_id, "merchant"), _scopes(scope or [])
    until = None if expires_at is None else time_of(expires_at)

    async def issue(ledger: Ledger, settings: Settings) -> tuple[str, ApiKey]:
        key = fresh_keys(settings)()
        actor = Actor(merchant_id=merchant)
        issued = await issue_key(ledger, actor, key, name=name, scopes=scopes, expires_at=until)
        return key.secret, issued.key

    secret, created = on_ledger(data_dir, issue, operator_of("keys create", by, reason))
    _echo_new(merchant, secret, created, json=json)


@app.command(name="list")
def list_(
    merchant_id: MerchantId,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option(f"[{_KEY_JSON}]")] = False,
) -> None:
    """List a merchant's keys, the oldest first, revoked and expired ones included."""
    from projections.merchants import list_keys

    merchant = uuid_of(merchant_id, "merchant")

    async def keys_of(connection: Connection) -> list[ListedKey]:
        return await list_keys(connection, merchant)

    keys = on_connection(data_dir, keys_of)
    if not keys:
        raise CannotRun(f"there is no merchant {merchant}")  # every merchant has been issued a key
    if json:
        echo_json([_listed(key) for key in keys])
        return
    rows = [
        (
            str(key.key_id),
            f"…{key.hint}",
            _state(key),
            day_and_time(key.created_at),
            day_and_time(key.expires_at),
            day_and_time(key.last_used_at or None) or "never",
            ",".join(key.scopes) or "everything",
            key.name or "",
        )
        for key in keys
    ]
    echo_table(("KEY", "ENDS IN", "STATE", "ISSUED", "EXPIRES", "LAST USED", "SCOPES", "NAME"), rows)


@app.command()
def rotate(
    merchant_id: MerchantId,
    key_id: KeyId,
    overlap: Annotated[
        int, typer.Option(metavar="SECONDS", help="How long the old key stays valid.", min=0, max=OVERLAP_MAX_S)
    ] = OVERLAP_S,
    yes: Yes = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: NewKeyJson = False,
) -> None:
    """Issue a key in the place of another, which stays valid for a while, and print it. It is shown only once.

    With an overlap of 0 the old key ends at once: that is confirmed, as for `keys revoke`.
    """
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.api_keys import KeyResult, rotate_key
    from ledger.seeding.seed import fresh_keys

    merchant, old = uuid_of(merchant_id, "merchant"), uuid_of(key_id, "key")
    operator = operator_of("keys rotate", by, reason)
    if not overlap:
        require_confirmation(
            f"Without an overlap, every request that uses the key {old} is refused from now on", yes=yes
        )

    async def replace(ledger: Ledger, settings: Settings) -> tuple[str, KeyResult]:
        key = fresh_keys(settings)()
        actor = Actor(merchant_id=merchant)
        return key.secret, await rotate_key(ledger, actor, old, key, overlap=timedelta(seconds=overlap))

    secret, rotated = on_ledger(data_dir, replace, operator)
    _echo_new(merchant, secret, rotated.key, json=json)
    if not json and rotated.replaced is not None:
        until = day_and_time(rotated.replaced.expires_at)
        typer.echo(f"The key that ends in {rotated.replaced.hint} is valid until {until}.")


@app.command()
def revoke(
    merchant_id: MerchantId,
    key_id: KeyId,
    yes: Yes = False,
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[bool, json_option("{keyId, hint, revokedAt}")] = False,
) -> None:
    """Revoke a key. A second time changes nothing."""
    from ledger.operations.context.inputs import Actor
    from ledger.operations.merchants.api_keys import revoke_key
    from projections.formats import moment_or_null

    actor, key = Actor(merchant_id=uuid_of(merchant_id, "merchant")), uuid_of(key_id, "key")
    operator = operator_of("keys revoke", by, reason)
    require_confirmation(f"Revoking the key {key} refuses every request that uses it", yes=yes)
    revoked = on_ledger(data_dir, lambda ledger, _: revoke_key(ledger, actor, key), operator).key
    if json:
        echo_json({"keyId": revoked.key_id, "hint": revoked.hint, "revokedAt": moment_or_null(revoked.revoked_at)})
    else:
        typer.echo(f"the key that ends in {revoked.hint} is revoked, since {day_and_time(revoked.revoked_at)}")


@app.command(name="rewrap")
def rewrap_(
    by: By = None,
    reason: Reason = None,
    data_dir: DataDir = None,
    json: Annotated[
        bool,
        json_option(
            "{keys, cards, sealingKey}, how many are under that sealing key now; cards is null without the vault"
        ),
    ] = False,
) -> None:
    """Seal every key of a customer, a saved card, an issuer, an account or an endpoint with the newest sealing key,
    while the service runs.

    Run it once every process has the newest key. Afterwards the older ones can be removed from LEDGER_SEALING_KEYS.
    """
    from ledger.invoicing.issuers import ISSUER_KEYS
    from ledger.journal.append import KeyUnavailable, SealBroken
    from ledger.journal.encryption.rewrapping import rewrap
    from ledger.journal.encryption.sealing_keys import SealingKeys
    from ledger.postgres.connection import connect
    from ledger.processors.account_keys import PROCESSOR_KEYS
    from ledger.security.secrets import Purpose, load_sealing_keys
    from ledger.vault.rewrapping import CARD_KEYS
    from ledger.webhooks.endpoint_secrets import WEBHOOK_SECRETS

    async def work(settings: Settings) -> tuple[int, int | None, str]:
        assert settings.database_url is not None, "the installation's settings name its database"
        keys = SealingKeys(load_sealing_keys(settings))
        card_keys = SealingKeys(load_sealing_keys(settings, Purpose.CARD_KEY_WRAPPING), holder="payment method")
        issuer_keys = SealingKeys(load_sealing_keys(settings, Purpose.ISSUER_KEY_WRAPPING), holder="issuer")
        account_sealing = load_sealing_keys(settings, Purpose.PROCESSOR_KEY_WRAPPING)
        account_keys = SealingKeys(account_sealing, holder="processor account")
        webhook_sealing = load_sealing_keys(settings, Purpose.WEBHOOK_KEY_WRAPPING)
        webhook_keys = SealingKeys(webhook_sealing, holder="webhook endpoint")
        try:
            async with await connect(settings.database_url, "ledger-cli") as connection:
                count = await rewrap(connection, keys)
                count += await rewrap(connection, issuer_keys, ISSUER_KEYS)
                count += await rewrap(connection, account_keys, PROCESSOR_KEYS)
                count += await rewrap(connection, webhook_keys, WEBHOOK_SECRETS)
            if settings.database_vault_url is None:
                return count, None, keys.newest
            async with await connect(settings.database_vault_url, "ledger-cli") as connection:
                return count, await rewrap(connection, card_keys, CARD_KEYS), keys.newest
        except (KeyUnavailable, SealBroken) as fault:
            raise CannotRun(str(fault)) from None

    count, cards, newest = with_database(data_dir, work, recorded=Recorded(operator_of("keys rewrap", by, reason)))
    if json:
        echo_json({"keys": count, "cards": cards, "sealingKey": newest})
        return
    typer.echo(
        f"put under the sealing key {newest}: {counted(count, 'key')} of customers, issuers, accounts and endpoints; none is under another"
    )
    if cards is None:
        typer.echo(
            "the keys of saved cards were not read, because there is no role for the vault: keep the older sealing keys, "
            "and run it again with LEDGER_DATABASE_VAULT_URL"
        )
    else:
        typer.echo(f"put under it too: {counted(cards, 'key')} of saved cards")


def _echo_new(merchant_id: UUID, secret: str, key: ApiKey, *, json: bool) -> None:
    from projections.formats import moment_or_null

    if json:
        echo_json(
            {
                "keyId": key.key_id,
                "merchantId": merchant_id,
                "apiKey": secret,
                "name": key.name,
                "scopes": key.scopes,
                "expiresAt": moment_or_null(key.expires_at),
            }
        )
        return
    until = day_and_time(key.expires_at) or "it is revoked"
    typer.echo(f"key      {key.key_id}  {key.name or ''}".rstrip())
    typer.echo(f"API key  {secret}")
    typer.echo(f"allows   {', '.join(key.scopes) or 'everything'}, until {until}")
    typer.echo("The key is shown this once and kept nowhere: store it now.")


def _scopes(arguments: list[str]) -> list[str]:
    for scope in arguments:
        if scope not in list(Scope):
            raise CannotRun(f"there is no scope {scope!r}; there are: {', '.join(Scope)}")
    return sorted(set(arguments))


def _listed(key: ListedKey) -> dict[str, object]:
    from projections.formats import moment, moment_or_null

    return {
        "keyId": key.key_id,
        "hint": key.hint,
        "state": _state(key),
        "name": key.name,
        "scopes": key.scopes,
        "createdAt": moment(key.created_at),
        "expiresAt": moment_or_null(key.expires_at),
        "revokedAt": moment_or_null(key.revoked_at),
        "replacedBy": key.replaced_by,
        "lastUsedAt": moment_or_null(key.last_used_at or None),
    }


def _state(key: ListedKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= datetime.now(UTC) else "live"
