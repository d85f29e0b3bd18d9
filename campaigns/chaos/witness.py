"""The clients' own record of their requests and answers, kept apart from the service under test.

Nothing counts as acknowledged before its line is on disk, and no line is ever changed. The outcome of a request is a further
line; a request without one has an unknown outcome.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal
from uuid import UUID

import msgspec
from msgspec import Struct

Outcome = Literal["ok", "fail", "info"]
"""Acknowledged, refused for good (a definite 4xx), or unknown: a time-out, a reset, any 5xx."""


class Asked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that a client is about to send. `amount` is in minor units; `card` names how the card behaves, None for no card.

    `payment` is the merchant's own id of a charge, `key` the Idempotency-Key. `refunded` is the amount of a refund in minor
    units, `refund` the merchant's own id of it. About saved cards: the external id of a
    `customer`, the card's `number` to save, the saved `method`, and the `value` that a change writes.
    """

    do: str
    merchant_id: UUID
    external_id: str | None = None
    amount: int | None = None
    card: str | None = None
    payment: str | None = None
    key: str | None = None
    refunded: int | None = None
    refund: str | None = None
    customer: str | None = None
    number: str | None = None
    method: UUID | None = None
    value: str | None = None


class RecordedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer: the HTTP status, and the parts of the order in it that must stay true."""

    status: int
    code: str | None = None
    replayed: bool = False
    order_id: UUID | None = None
    order_status: str | None = None
    amount_paid: int | None = None
    payment_ids: tuple[UUID, ...] = ()
    payment_id: UUID | None = None
    payment_status: str | None = None
    refund_id: UUID | None = None
    listed: tuple[UUID, ...] = ()
    method_id: UUID | None = None


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the record. `n` numbers the operation, `outcome` is absent on the line that announces it."""

    n: int
    asked: Asked | None = None
    outcome: Outcome | None = None
    answer: RecordedAnswer | None = None
    why: str | None = None


class Operation(Struct, frozen=True, kw_only=True):
    """An operation in the record. `began` and `ended` are line numbers: they order what happened to a client."""

    n: int
    asked: Asked
    began: int
    ended: int | None
    outcome: Outcome
    answer: RecordedAnswer | None
    why: str | None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Witness:
    """Writes the record. Lines that are written while a sync is under way share the next one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._waiting: list[bytes] = []
        self._written = self._synced = 0
        self._turn = asyncio.Lock()
        self._n = 0
        self.syncs = 0

    async def invoke(self, asked: Asked) -> int:
        """Records an operation before anything of it is sent; returns its number."""
        self._n += 1
        n = self._n
        await self._keep(Line(n=n, asked=asked))
        return n

    async def ended(
        self, n: int, outcome: Outcome, answer: RecordedAnswer | None = None, why: str | None = None
    ) -> None:
        """Records the outcome of an operation. Returns when it is on disk: only then may the client rely on it."""
        await self._keep(Line(n=n, outcome=outcome, answer=answer, why=why))

    def close(self) -> None:
        os.close(self._file)

    async def _keep(self, line: Line) -> None:
        self._waiting.append(_encode(line) + b"\n")
        self._written += 1
        mine = self._written
        async with self._turn:
            if self._synced >= mine:
                return  # another client's sync has covered it
            lines, self._waiting = self._waiting, []
            upto = self._written
            await asyncio.to_thread(self._sync, b"".join(lines))
            self._synced = upto

    def _sync(self, lines: bytes) -> None:
        while lines:
            lines = lines[os.write(self._file, lines) :]
        os.fdatasync(self._file)
        self.syncs += 1


def read_record(path: Path) -> Sequence[Operation]:
    """Returns the operations of a record, in the order in which they were announced, without a last line that is cut short."""
    asked: dict[int, tuple[int, Asked]] = {}
    ended: dict[int, tuple[int, Line]] = {}
    *lines, _ = path.read_bytes().split(b"\n")
    for number, text in enumerate(lines):
        line = _decode(text)
        if line.asked is not None:
            asked[line.n] = number, line.asked
        else:
            assert line.n in asked, "an outcome without an operation"
            assert line.n not in ended, "two outcomes of one operation"
            ended[line.n] = number, line
    return [_operation(n, began, what, ended.get(n)) for n, (began, what) in asked.items()]


def _operation(n: int, began: int, asked: Asked, end: tuple[int, Line] | None) -> Operation:
    if end is None:
        return Operation(n=n, asked=asked, began=began, ended=None, outcome="info", answer=None, why="never ended")
    number, line = end
    assert line.outcome is not None, "a line announces an operation or ends it"
    return Operation(
        n=n, asked=asked, began=began, ended=number, outcome=line.outcome, answer=line.answer, why=line.why
    )
