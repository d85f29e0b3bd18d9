"""Requests that carry card numbers and security codes in right and in wrong places, and where those are looked for."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from stdnum import luhn
from tests.api.bodies import by_card, card, order, paid_order
from tests.api.storefront import JSON, ORDERS, Merchant

CVC: Final = "7391"
"""The security code of every request."""

_DIGITS: Final = re.compile(rb"[0-9](?:[ -]?[0-9]){15,}")
_PACKED: Final = re.compile(rb"(?=\x00[\x0e-\x11])|(?<=[\x0e-\x11]\x00)")  # where an int8 of 16 digits begins or ends


def card_number(draw: random.Random) -> str:
    """Returns a valid number of a card, which no other test uses."""
    digits = "4" + "".join(draw.choices("0123456789", k=14))
    return str(digits + luhn.calc_check_digit(digits))


def _paying(number: str, **changes: Any) -> dict[str, Any]:
    return paid_order(paymentMethod=by_card(cardDetails=card(number=number, cvc=CVC), **changes))


Send = Callable[[Merchant, str, str], Coroutine[Any, Any, Any]]


async def _saved_and_used(merchant: Merchant, name: str, number: str) -> Any:
    saved = await merchant.create(_paying(number, persist=True) | {"externalId": name})
    method_id = saved.json().get("paymentMethod", {}).get("id")
    if method_id is None:
        return saved
    method = {"type": "payment_method_id", "paymentMethodId": method_id, "cvc": CVC}
    await merchant.create(paid_order(externalId=f"{name}-again", paymentMethod=method))
    await merchant.get(f"/api/payment-methods/{method_id}")
    body = {"billingCity": number, "cardDetails": {"number": number, "cvc": CVC}}
    await merchant.client.put(f"/api/payment-methods/{method_id}", json=body, headers=merchant.key)
    return await merchant.get("/api/customers/ana/payment-methods")


async def _saved_alone(merchant: Merchant, name: str, number: str) -> Any:
    method = by_card(cardDetails=card(number=number, cvc=CVC))
    await merchant.post("/api/customers", {"externalId": name, "firstName": "Ana"})
    return await merchant.post(f"/api/customers/{name}/payment-methods", {"paymentMethod": method})


PLACES: Final[dict[str, Send]] = {
    "saved and used": _saved_and_used,
    "saved alone": _saved_alone,
    "paid once": lambda m, n, pan: m.create(_paying(pan) | {"externalId": n}),
    "the older place": lambda m, n, pan: m.create(
        paid_order(externalId=n, paymentMethod={"type": "card", "options": {"card": card(number=pan, cvc=CVC)}})
    ),
    "description": lambda m, n, pan: m.create(order(externalId=n, description=f"tarjeta {pan} cvc: {CVC}")),
    "metadata": lambda m, n, pan: m.create(order(externalId=n, metadata={"card": [pan], "cvc": CVC})),
    "number in metadata": lambda m, n, pan: m.create(order(externalId=n, metadata={"card": int(pan)})),
    "external id": lambda m, _, pan: m.create(order(externalId=pan)),
    "enum field": lambda m, n, pan: m.create(order(externalId=n, currency=pan)),
    "method type": lambda m, n, pan: m.create(paid_order(externalId=n, paymentMethod={"type": pan})),
    "method id": lambda m, n, pan: m.create(
        paid_order(externalId=n, paymentMethod={"type": "payment_method_id", "paymentMethodId": pan, "cvc": CVC})
    ),
    "another member": lambda m, n, pan: m.create(_paying(pan) | {"externalId": n, "unknown": pan, pan: CVC}),
    "wrong type": lambda m, n, pan: m.create(order(externalId=n, amount=pan)),
    "customer": lambda m, n, pan: m.create(order(externalId=n, customer={"externalId": "c", "firstName": pan})),
    "malformed": lambda m, _, pan: m.post(ORDERS, b'{"paymentMethod":{"number":"%s","cvc":"7391' % pan.encode()),
    "path": lambda m, _, pan: m.get(f"{ORDERS}/{pan}"),
    "method's path": lambda m, _, pan: m.get(f"/api/payment-methods/{pan}"),
    "query": lambda m, _, pan: m.get(f"{ORDERS}?search={pan}&cvc={CVC}&limit={pan}"),
    "request id": lambda m, _, pan: m.get(ORDERS, **{"x-request-id": pan}),
    "key header": lambda m, _, pan: m.client.post(ORDERS, json={}, headers=JSON | {"x-api-key": pan}),
    "merchant header": lambda m, _, pan: m.get(ORDERS, **{"x-merchant-id": pan}),
    "idempotency key": lambda m, n, pan: m.post(ORDERS, order(externalId=n), **{"idempotency-key": pan}),
    "split number": lambda m, n, pan: m.create(
        order(externalId=n, description=" ".join(pan[at : at + 4] for at in range(0, 16, 4)))
    ),
}
"""How a request carries a number: the merchant, a name for its order, the number."""


async def flood(merchant: Merchant, numbers: Sequence[str]) -> bytes:
    """Sends every number in one of the places, eight requests at a time. Returns what was answered, heads included."""
    answers: list[bytes] = []
    places, at_once = list(PLACES.values()), asyncio.Semaphore(8)

    async def send(n: int, number: str) -> None:
        async with at_once:
            answer = await places[n % len(places)](merchant, f"flood-{n}", number)
        answers.append(repr(answer.headers).encode() + answer.content)

    await asyncio.gather(*[send(n, number) for n, number in enumerate(numbers)])
    return b"\n".join(answers)


def found_in(content: bytes, numbers: Iterable[str], cvc: str = CVC) -> set[str]:
    """Returns which numbers are in the bytes: as digits, in groups, or as an integer; and the security code as `cvc`.

    Four digits count as the code between the signs of JSON and of texts: random bytes contain them everywhere.

    One pass finds what may be a number of 16 digits, however many numbers there are.
    """
    wanted = set(numbers)
    code = rb"(?:^|[\s\"'\\:=(\[])%s(?:$|[\s\"'\\,})\]])" % cvc.encode()
    found = {"cvc"} if re.search(code, content) else set()
    for run in _DIGITS.finditer(content):
        digits = re.sub(rb"[ -]", b"", run.group()).decode()
        found |= wanted & {digits[at : at + 16] for at in range(len(digits) - 15)}
    for place in _PACKED.finditer(content):
        after, before = content[place.start() : place.start() + 8], content[place.start() - 8 : place.start()]
        found |= wanted & {str(int.from_bytes(after)), str(int.from_bytes(before, "little"))}
    return found


def tables(url: str) -> dict[str, bytes]:
    """Returns the content of every table of the database, read as its superuser, the vault's included."""
    content = {}
    with psycopg.connect(url) as connection:
        query = """select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                    where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema')"""
        for schema, table in connection.execute(query).fetchall():
            rows = connection.cursor(binary=True).execute(
                sql.SQL("select * from {}").format(sql.Identifier(schema, table))
            )
            cells = (cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row)
            content[table] = b"\n".join(cells)
    return content


def wal_position(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_current_wal_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def wal(url: str, since: str) -> bytes:
    """Returns the WAL that the server has written since a position, to whole segments."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("checkpoint")
        query = """select pg_read_binary_file('pg_wal/' || name) from pg_ls_waldir()
                    where name between pg_walfile_name(%s) and pg_walfile_name(pg_current_wal_lsn())"""
        return b"".join(segment for (segment,) in connection.cursor(binary=True).execute(query, [since]))


def files(directory: Path, pattern: str = "*") -> bytes:
    """Returns the content of all files below a directory."""
    return b"\n".join(path.read_bytes() for path in sorted(directory.rglob(pattern)) if path.is_file())
