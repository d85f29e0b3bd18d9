"""A sealing key changes while saved cards pay: every process gets the new key, then uses it, then all cards are rewrapped.

`python -m campaigns vault [--cards N]` runs it with many cards and prints what it took.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct
from tests.operations.conftest import an_order, by_card, register
from tests.operations.test_saved_cards import by_saved
from tests.sealing import MASTER_KEY
from uuid_utils.compat import uuid7

from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import connect
from ledger.security.secrets import Purpose, load_sealing_keys
from ledger.settings import Settings
from ledger.vault.rewrapping import CARD_KEYS
from ledger.wiring import open_ledger

OLD, NEW = "0d" * 32, "4e" * 32
_CLIENTS, _SAVED_BY_ORDERS, _AT_ONCE = 4, 20, 200


class Rotation(Struct, kw_only=True):
    """What a rotation came to. `failed` are the requests that did not end with a paid order."""

    cards: int = 0
    rewrapped: int = 0
    rewrap_s: float = 0.0
    seconds: list[float] = []
    failed: list[str] = []

    @property
    def paid(self) -> int:
        return len(self.seconds)

    def quantile_ms(self, share: float) -> float:
        return 1000 * sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


def with_keys(url: str, *keys: str) -> Settings:
    """Returns settings with these sealing keys, the newest first."""
    return Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY, sealing_keys=",".join(keys))


def card_keys(settings: Settings) -> SealingKeys:
    return SealingKeys(load_sealing_keys(settings, Purpose.CARD_KEY_WRAPPING), holder="payment method")


async def rewrapped(settings: Settings) -> int:
    """Rewraps as `ledger keys rewrap` does; returns the number of cards."""
    assert settings.database_url is not None
    assert settings.database_vault_url is not None
    async with await connect(settings.database_url, "test-rewrap") as connection:
        await rewrap(connection, SealingKeys(load_sealing_keys(settings)))
    async with await connect(settings.database_vault_url, "test-rewrap") as connection:
        return await rewrap(connection, card_keys(settings), CARD_KEYS)


async def rotate(url: str, cards: int, pause_s: float = 0.2) -> Rotation:
    """Saves cards, changes the sealing key while they pay, and pays with each once more under the new key alone."""
    result = Rotation()
    async with open_ledger(with_keys(url, OLD)) as first:
        merchant = await register(first)
        methods = [await _saved(first, merchant, n) for n in range(min(_SAVED_BY_ORDERS, cards))]
        await _fill(first, merchant, cards - len(methods))
    result.cards = cards
    contexts, process, stop = [], list[Ledger](), asyncio.Event()
    clients: list[asyncio.Task[None]] = []
    for keys in ((OLD,), (OLD, NEW), (NEW, OLD)):  # the process is replaced under load, the old one finishes its work
        contexts.append(open_ledger(with_keys(url, *keys)))
        process.append(await contexts[-1].__aenter__())
        clients = clients or [
            asyncio.create_task(_client(process, merchant, methods, n, stop, result)) for n in range(_CLIENTS)
        ]
        await asyncio.sleep(pause_s)
    began = time.monotonic()
    result.rewrapped = await rewrapped(with_keys(url, NEW, OLD))
    result.rewrap_s = time.monotonic() - began
    await asyncio.sleep(pause_s)
    stop.set()
    await asyncio.gather(*clients)
    for context in reversed(contexts):
        await context.__aexit__(None, None, None)
    async with open_ledger(with_keys(url, NEW)) as alone:
        for n, method_id in enumerate(methods):
            await _pay(alone, merchant, method_id, n, f"last-{n}", result)
    return result


async def _saved(ledger: Ledger, merchant: Actor, n: int) -> UUID:
    order = an_order(f"save-{n}", by_card(persist=True), customer=CustomerInput(external_id=f"c-{n}"))
    return (await create_order(ledger, merchant, order)).order.payments[0].started.method.method_id


async def _fill(ledger: Ledger, merchant: Actor, count: int) -> None:
    assert ledger.vault is not None
    for start in range(0, count, _AT_ONCE):
        number = "4" + os.urandom(6).hex().translate(str.maketrans("abcdef", "012345")) + "000"
        customers = [uuid7() for _ in range(min(_AT_ONCE, count - start))]
        await asyncio.gather(*[ledger.vault.keep(merchant.merchant_id, customer, number) for customer in customers])


async def _client(
    process: list[Ledger], merchant: Actor, methods: Sequence[UUID], name: int, stop: asyncio.Event, result: Rotation
) -> None:
    n = 0
    while not stop.is_set():
        at, n = (name + n * _CLIENTS) % len(methods), n + 1
        await _pay(process[-1], merchant, methods[at], at, f"pay-{name}-{n}", result)


async def _pay(ledger: Ledger, merchant: Actor, method_id: UUID, customer: int, name: str, result: Rotation) -> None:
    began = time.monotonic()
    order = an_order(name, by_saved(method_id), customer=CustomerInput(external_id=f"c-{customer}"))
    try:
        status = (await create_order(ledger, merchant, order)).order.status
    except Exception as failure:  # noqa: BLE001 - every failure is counted
        result.failed.append(f"{name}: {type(failure).__name__} {failure}")
        return
    if status is OrderStatus.COMPLETED:
        result.seconds.append(time.monotonic() - began)
    else:
        result.failed.append(f"{name}: {status}")
