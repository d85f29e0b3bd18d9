"""What a merchant's customers paid, by currency: a consumer of the feed on which every event has its effect once.

    LEDGER_API_KEY=sk_… python docs/how-to/feed_totals.py http://127.0.0.1:8000/api totals.db

The payments and the position are written in one transaction: a program that is killed at any moment goes on behind the
last event that it has taken over.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from typing import Any

Fetch = Callable[[str], dict[str, Any]]

TABLES = """
create table if not exists position (sequence integer not null);
create table if not exists payment (id text primary key, currency text, captured text, refunded text);
insert into position select 0 where not exists (select 1 from position);
"""


def consume(database: sqlite3.Connection, fetch: Fetch, wait_s: int = 20) -> bool:
    """Takes over one page of events. Returns whether there are more to read now."""
    (after,) = database.execute("select sequence from position").fetchone()
    page = fetch(f"/v1/events?afterSequence={after}&type=payment.captured,payment.refunded&limit=500&wait={wait_s}")
    with database:  # one transaction: the effect of the events, and the position behind them
        for payment in (event["data"] for event in page["data"]):
            row = [payment[name] for name in ("id", "currency", "capturedAmount", "refundedAmount")]
            database.execute("insert or replace into payment values (?, ?, ?, ?)", row)
        database.execute("update position set sequence = ?", [page["lastSequence"]])
    return bool(page["hasMore"])


def totals(database: sqlite3.Connection) -> dict[str, Decimal]:
    """Returns what is left of the captured money, by currency, in minor units."""
    found: dict[str, Decimal] = {}
    for currency, captured, refunded in database.execute("select currency, captured, refunded from payment"):
        found[currency] = found.get(currency, Decimal(0)) + Decimal(captured) - Decimal(refunded)
    return found


def opened(path: str) -> sqlite3.Connection:
    """Returns the database of the totals, with its tables."""
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    return database


def fetch_from(address: str, key: str) -> Fetch:
    """Returns what reads a path of the service below `address`."""

    def fetch(path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{address}{path}", headers={"x-api-key": key})  # noqa: S310 - the user's own
        with urllib.request.urlopen(request, timeout=40) as answer:  # noqa: S310
            body: dict[str, Any] = json.load(answer)
            return body

    return fetch


def main() -> None:
    """Follows the feed until Ctrl-C. Exits 2 if it is started otherwise than as above."""
    key = os.environ.get("LEDGER_API_KEY")
    if len(sys.argv) != 3 or key is None:
        sys.stderr.write("usage: LEDGER_API_KEY=sk_… feed_totals.py http://127.0.0.1:8000/api totals.db\n")
        sys.exit(2)
    address, path = sys.argv[1:]
    database, fetch = opened(path), fetch_from(address, key)
    while True:
        try:
            if not consume(database, fetch):
                shown = ", ".join(f"{total:f} {currency}" for currency, total in totals(database).items())
                sys.stdout.write(f"{shown}\n")
                sys.stdout.flush()
        except urllib.error.HTTPError as refused:
            if refused.code not in (429, 503):
                raise
            time.sleep(float(refused.headers.get("Retry-After", "1")))
        except OSError as lost:
            sys.stderr.write(f"the service is away ({lost}): trying again\n")
            time.sleep(1)


if __name__ == "__main__":
    main()
