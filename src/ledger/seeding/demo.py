"""The demo: a merchant with a past, and a key that is the same at every start, for whoever sees the ledger the first time.

The rule a stranger would break: sandbox only. The key is kept in the data directory for its owner's eyes, which no key
that moves money may ever be.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import sys
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from ledger.operations.merchants import issue_key, merchant_of
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
"""Who the demo's story is about."""

STORY: Final = "cafe_bruma.jsonl"
FIRST_ORDER: Final = "first_order.json"
MEMORY: Final = "demo.json"
"""The file of the data directory in which the demo's key is remembered."""


class DemoAccess(Struct, frozen=True, kw_only=True, rename="camel"):
    """How to get in. `story` is the hash of the story that has been told to its end, None before that."""

    merchant_id: UUID
    api_key: str
    story: str | None = None


def prepare(settings: Settings) -> None:
    """Make sure of the demo and print how to get in. Exits 1 with one line where the demo cannot be had.

    `settings` name a database with the current schema and the port that will be served.
    """
    try:
        text = welcome(settings, asyncio.run(provide(settings)))
    except CannotRun as reason:
        sys.stderr.write(f"ledger: {reason}\n")
        sys.exit(1)
    sys.stdout.write(text)
    sys.stdout.flush()


async def provide(settings: Settings) -> DemoAccess:
    """The demo's merchant with a key that works and its story told; one query where all of it is there already.

    A story that cannot be told to its end, because somebody has used its orders in another way, is a warning. Raises
    CannotRun in production, or without the story's file.
    """
    if settings.environment == "production":
        raise CannotRun("--demo is for the sandbox: production has no demo merchant")
    story = seeds_dir() / STORY
    digest = hashlib.sha256(story.read_bytes()).hexdigest()
    access = _recall(settings)
    if access is not None and access.story == digest and await _speaks(settings, access):
        return access
    secret = fresh_keys(settings)().secret if access is None else access.api_key
    access = DemoAccess(merchant_id=merchant_id_of(MERCHANT), api_key=secret)
    _remember(settings, access)  # before the ledger knows the key: a key that nobody remembers opens nothing
    told: str | None = digest
    try:
        await seed(settings, story, make_key=lambda: _key(settings, secret))
    except InvalidScenario as reason:
        sys.stderr.write(f"ledger: warning: the demo's story ends early: {reason}\n")
        told = None
    access = DemoAccess(merchant_id=access.merchant_id, api_key=await _let_in(settings, access), story=told)
    _remember(settings, access)
    return access


def welcome(settings: Settings, access: DemoAccess) -> str:
    """What a person needs to begin: the addresses, the key, the merchant, and a first request to copy."""
    api, order = f"{url_of(settings)}{settings.base_path}", _as_seen_from_here(seeds_dir() / FIRST_ORDER)
    return f"""
{MERCHANT}, a coffee roaster in Coatepec, is the demo's merchant: five months of orders are there to be read.

  API       {api}
  API key   {access.api_key}   (sandbox only, kept in {settings.data_dir / MEMORY})
  merchant  {access.merchant_id}

A first payment order, once the service is ready:

  curl {api}/v2/payment-orders -H 'x-api-key: {access.api_key}' \\
    -H 'content-type: application/json' --data @{shlex.quote(str(order))}

"""


def seeds_dir() -> Path:
    """Where the demo's files are: the project's directory, whether we run in it or from it. Raises CannotRun."""
    for place in (Path("seeds"), Path(__file__).resolve().parents[3] / "seeds"):
        if (place / STORY).is_file() and (place / FIRST_ORDER).is_file():
            return place
    raise CannotRun(f"the demo needs seeds/{STORY}: run it in the project's directory")


async def _speaks(settings: Settings, access: DemoAccess) -> bool:
    """Whether the remembered key lives in this very database; the data directory may have met another one before."""
    assert settings.database_url is not None, "the parent has named it"
    key_hash = bytes.fromhex(_key(settings, access.api_key).key_hash)
    async with await connect(settings.database_url, "ledger-demo") as connection:
        row = await (await connection.execute(FIND_KEY, ([0], [key_hash]), binary=True)).fetchone()
    return row is not None and found_key(row).revoked_at is None


async def _let_in(settings: Settings, access: DemoAccess) -> str:
    """A key that speaks for the merchant: the remembered one, or another where it was revoked or never issued."""
    key = _key(settings, access.api_key)
    async with open_ledger(settings) as ledger:
        merchant = await merchant_of(ledger, access.merchant_id)
        issued = next((one for one in merchant.keys if one.key_hash == key.key_hash), None)
        if issued is not None and issued.revoked_at is None:
            return key.secret
        if issued is not None:
            key = fresh_keys(settings)()
        await issue_key(ledger, access.merchant_id, key, name="demo")
    return key.secret


def _key(settings: Settings, secret: str) -> NewKey:
    return known_key(secret, load_secrets(settings).key(Purpose.API_KEY_PEPPER))


def _recall(settings: Settings) -> DemoAccess | None:
    """What an earlier start has remembered; None where there is nothing that can be used."""
    try:
        return msgspec.json.decode((settings.data_dir / MEMORY).read_bytes(), type=DemoAccess)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _remember(settings: Settings, access: DemoAccess) -> None:
    """Keep it for the owner's eyes only, and never half written."""
    place = settings.data_dir / MEMORY
    unfinished = place.with_name(f"{MEMORY}.{uuid4().hex}")
    try:
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(access) + b"\n")
        unfinished.replace(place)
    except OSError as refusal:
        unfinished.unlink(missing_ok=True)
        raise CannotRun(f"the demo's key cannot be kept in {place}: {refusal.strerror}") from refusal


def _as_seen_from_here(place: Path) -> Path:
    """The shortest way to a file for somebody who types in the current directory."""
    here = Path.cwd()
    place = place.resolve()
    return place.relative_to(here) if place.is_relative_to(here) else place
