"""The demo of the sandbox: a merchant with months of orders, and an API key that is the same at every start.

Never offer it in production: the key is stored in the data directory, in a file that only its owner can read.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
from datetime import UTC, datetime
from hmac import compare_digest
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from ledger.operations.context.inputs import Actor
from ledger.operations.merchants.api_keys import issue_key
from ledger.operations.merchants.registration import merchant_of
from ledger.postgres.connection import connect
from ledger.security.api_keys import NewKey, known_key
from ledger.security.secrets import Purpose, load_secrets
from ledger.seeding.context import merchant_id_of
from ledger.seeding.scenario_file import InvalidScenario
from ledger.seeding.seed import fresh_keys, seed
from ledger.service.supervisor import url_of
from ledger.settings import CannotRun, Settings
from ledger.wiring import open_ledger
from projections.merchants import FIND_KEY, found_key

MERCHANT: Final = "Café Bruma Alta"
"""The merchant of the demo's scenario."""

SCENARIO: Final = "cafe_bruma.jsonl"
FIRST_ORDER: Final = "first_order.json"
ACCESS_FILE: Final = "demo.json"
"""The file of the data directory that holds the demo's key."""


class DemoAccess(Struct, frozen=True, kw_only=True, rename="camel"):
    """The demo's merchant and API key. `scenario` is the hash of the scenario that ran to its end, None before that."""

    merchant_id: UUID
    api_key: str
    scenario: str | None = None


def prepare(settings: Settings) -> None:
    """Prepares the demo and prints its addresses and key. Exits 1 with one line if the demo cannot be prepared.

    `settings` name a database with the current schema and the port that will be served.
    """
    _print(welcome(settings, _provided(settings)))


def prepare_as_json(settings: Settings) -> None:
    """Prepares the demo and prints its merchant and key as `ledger demo --json`. Exits as `prepare`."""
    _print(f"{access_as_json(_provided(settings))}\n")


def access_as_json(access: DemoAccess) -> str:
    """Returns the merchant's id and its key as one line of JSON."""
    return msgspec.json.encode({"merchantId": access.merchant_id, "apiKey": access.api_key}).decode()


def _provided(settings: Settings) -> DemoAccess:
    try:
        return asyncio.run(provide(settings))
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        sys.exit(1)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


async def provide(settings: Settings) -> DemoAccess:
    """Runs the demo's scenario and returns access with a key that works; does one query if both exist already.

    A scenario that cannot run to its end, because its orders have been used in another way, is a warning. Raises
    CannotRun in production, or without the scenario's file.
    """
    if settings.environment == "production":
        raise CannotRun("--demo is for the sandbox: production has no demo merchant")
    scenario = seeds_dir() / SCENARIO
    digest: str | None = hashlib.sha256(scenario.read_bytes()).hexdigest()
    access = _load(settings)
    if access is not None and access.scenario == digest and await _is_valid(settings, access):
        return access
    secret = fresh_keys(settings)().secret if access is None else access.api_key
    access = DemoAccess(merchant_id=merchant_id_of(MERCHANT), api_key=secret)
    _save(settings, access)  # before the ledger has the key: its secret would be lost if this process ended in between
    try:
        await seed(settings, scenario, make_key=lambda: _key(settings, secret))
    except InvalidScenario as reason:
        sys.stderr.write(f"ledger: warning: the demo's scenario ends early: {reason}\n")
        digest = None
    access = DemoAccess(merchant_id=access.merchant_id, api_key=await _working_key(settings, access), scenario=digest)
    _save(settings, access)
    return access


def welcome(settings: Settings, access: DemoAccess) -> str:
    """Returns the text that names the addresses, the key and the merchant, with a first request to copy."""
    api, order = f"{url_of(settings)}{settings.base_path}", _relative_to_here(seeds_dir() / FIRST_ORDER)
    return f"""
{MERCHANT}, a coffee roaster in Coatepec, is the demo's merchant: five months of orders are there to be read.
A first payment order, once the service is ready:

  curl {api}/v2/payment-orders -H 'x-api-key: {access.api_key}' \\
    -H 'content-type: application/json' --data @{shlex.quote(str(order))}

  API       {api}
  reference {url_of(settings)}/docs
  merchant  {access.merchant_id}
  API key   {access.api_key}   (sandbox only; `ledger demo` shows it again)

"""


def stored(settings: Settings) -> DemoAccess:
    """Returns what the last start of the demo has stored. Raises CannotRun if there is none."""
    access = _load(settings)
    if access is None:
        raise CannotRun(f"{settings.data_dir} has no demo: `make run`, or `ledger serve --demo`, makes one")
    return access


def seeds_dir() -> Path:
    """Returns the directory of the demo's files: in the current directory, or in the project that runs.

    Raises CannotRun.
    """
    for place in (Path("seeds"), Path(__file__).resolve().parents[3] / "seeds"):
        if (place / SCENARIO).is_file() and (place / FIRST_ORDER).is_file():
            return place
    raise CannotRun(f"the demo needs seeds/{SCENARIO}: run it in the project's directory")


async def _is_valid(settings: Settings, access: DemoAccess) -> bool:
    """Returns whether this database has the stored key. The data directory may have been used with another database."""
    assert settings.database_url is not None, "the parent process has named the database"
    key_hash = bytes.fromhex(_key(settings, access.api_key).key_hash)
    async with await connect(settings.database_url, "ledger-demo") as connection:
        row = await (await connection.execute(FIND_KEY, ([0], [key_hash]), binary=True)).fetchone()
    if row is None:
        return False
    found = found_key(row)
    return found.revoked_at is None and (found.expires_at is None or found.expires_at > datetime.now(UTC))


async def _working_key(settings: Settings, access: DemoAccess) -> str:
    """Returns a valid key of the merchant: the stored one, or a new one if that was revoked.

    Issues it if needed.
    """
    key = _key(settings, access.api_key)
    async with open_ledger(settings) as ledger:
        merchant = await merchant_of(ledger, access.merchant_id)
        if merchant.closed_at is not None:
            raise CannotRun("the demo's merchant is closed: start on another directory with --data-dir")
        issued = next((one for one in merchant.keys if compare_digest(one.key_hash, key.key_hash)), None)
        if issued is not None and issued.is_valid(datetime.now(UTC)):
            return key.secret
        if issued is not None:
            key = fresh_keys(settings)()
        await issue_key(ledger, Actor(merchant_id=access.merchant_id), key, name="demo")
    return key.secret


def _key(settings: Settings, secret: str) -> NewKey:
    return known_key(secret, load_secrets(settings).key(Purpose.API_KEY_PEPPER))


def _load(settings: Settings) -> DemoAccess | None:
    """Returns what an earlier start has stored, or None if nothing usable is stored."""
    try:
        return msgspec.json.decode((settings.data_dir / ACCESS_FILE).read_bytes(), type=DemoAccess)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _save(settings: Settings, access: DemoAccess) -> None:
    """Stores access in a file that only its owner can read, in one step. Raises CannotRun."""
    place = settings.data_dir / ACCESS_FILE
    unfinished = place.with_name(f"{ACCESS_FILE}.{uuid4().hex}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(access) + b"\n")
        unfinished.replace(place)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise CannotRun(f"the demo's key cannot be kept in {place}: {error.strerror}") from error


def _relative_to_here(place: Path) -> Path:
    """Returns the path of a file below the current directory relative to it, of any other file as it is."""
    here = Path.cwd()
    place = place.resolve()
    return place.relative_to(here) if place.is_relative_to(here) else place
