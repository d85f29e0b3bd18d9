"""The sandbox processor's charge records: a call with its answer, and the statements that write and read them.

Never store a card number or a CVC. A call holds the first six and the last four digits of its card.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import SCALE, scaled, shortest
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Approved, Declined
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection

_CALL_COLUMNS: Final = {
    "merchant_id": "uuid", "idempotency_key": "text", "amount": "int8", "currency": "text", "capture": "bool",
    "card_bin": "text", "card_last4": "text",
}  # fmt: skip
_ANSWER_COLUMNS: Final = {
    "authorized": "int8", "captured": "int8", "reference": "text", "authorization_code": "text", "decline_code": "text",
    "decline_message": "text", "refused_by": "text",
}  # fmt: skip
_COLUMNS: Final = {**_CALL_COLUMNS, **_ANSWER_COLUMNS}

TREATED: Final = """treated as (  -- merchants with a mode, and for how many of their calls it still holds (null: all)
  update sandbox_mode m set times_left = m.times_left - c.calls
    from (select merchant_id, count(*) as calls from call group by merchant_id) c
   where m.merchant_id = c.merchant_id and m.mode <> 'OK' and (m.times_left is null or m.times_left > 0)
  returning m.merchant_id, m.mode, m.times_left + c.calls as times)"""
"""A part of a statement that counts the calls of its part `call`, which has the `merchant_id` of each."""

# A batch of calls, each with a key of its own, written in one commit. Leaves out those of merchants for whom the
# processor is down. A key that is recorded already, here or by another process, keeps its values. Sorted, so that two
# batches with the same keys queue and do not deadlock. Answers, for each call, the merchant's mode (null is OK) and the
# answer of a key that was recorded already (else nulls).
_WRITE_BATCH: Final = """
with call as (
  select * from unnest({arrays}) with ordinality as c({columns}, n)),
{treated},
special as (
  select c.n, t.mode
    from (select n, merchant_id, row_number() over (partition by merchant_id order by n) as k from call) c
    join treated t on t.merchant_id = c.merchant_id and (t.times is null or c.k <= t.times)),
written as (
  insert into sandbox_charge as old ({columns})
  select {columns} from call where n not in (select n from special where mode = 'DOWN')
   order by merchant_id, idempotency_key
  on conflict (merchant_id, idempotency_key) do update set amount = old.amount  -- changes nothing, and returns the row
  returning *, xmax <> 0 as existed)  -- xmax is 0 in an inserted row, and set in an updated one
select s.mode, {answer}
  from call
  left join special s on s.n = call.n
  left join written c on c.existed and c.merchant_id = call.merchant_id and c.idempotency_key = call.idempotency_key
 order by call.n
"""

# One call, in the transaction of another effect.
_WRITE_ONE: Final = "insert into sandbox_charge ({columns}) select * from unnest({arrays}) on conflict do nothing"

# The answers that are recorded for these keys, each with the key's number from 1.
_READ_ANSWERS: Final = """
select k.n, {answer}
  from unnest(%s::uuid[], %s::text[]) with ordinality as k(merchant_id, idempotency_key, n)
  join sandbox_charge c on c.merchant_id = k.merchant_id and c.idempotency_key = k.idempotency_key
"""

_WRITE, _INSERT, _READ = (
    statement.format(
        columns=", ".join(_COLUMNS),
        arrays=", ".join(f"%s::{type_}[]" for type_ in _COLUMNS.values()),
        answer=", ".join(f"c.{column}" for column in _ANSWER_COLUMNS),
        treated=TREATED,
    )
    for statement in (_WRITE_BATCH, _WRITE_ONE, _READ_ANSWERS)
)

# How the merchant's next calls are to be treated.
_SET_MODE: Final = """
insert into sandbox_mode (merchant_id, mode, times_left) values (%s, %s, %s)
on conflict (merchant_id) do update set mode = excluded.mode, times_left = excluded.times_left
"""

# Refuses a key from now on. A key that is recorded keeps its row.
_FENCE: Final = """
insert into sandbox_charge (merchant_id, idempotency_key, amount, currency, capture, card_bin, card_last4, authorized,
                            captured, reference, decline_code)
values (%s, %s, 1, '', false, '', '', 0, 0, '', 'FENCED') on conflict do nothing
"""
_FENCED: Final = "FENCED"
"""The decline code of a key that is refused. No card is declined with it."""

Answer = Approved | Declined

CallKey = tuple[UUID, str]
"""Merchant and idempotency key."""


class Mode(StrEnum):
    """The ways in which the sandbox treats a merchant's calls: answers, refuses, or answers late."""

    OK = "OK"
    DOWN = "DOWN"
    SLOW = "SLOW"


class ChargeCall(Struct, frozen=True, kw_only=True):
    """A call as it is recorded, with the answer that its card asks for. `amount` in minor units of `currency`."""

    merchant_id: UUID
    idempotency_key: str
    amount: Decimal
    currency: str
    capture: bool
    card_bin: str
    card_last4: str
    reference: str
    answer: Answer

    @property
    def key(self) -> CallKey:
        return self.merchant_id, self.idempotency_key


class RecordedCharge(Struct, frozen=True):
    """The answer that is recorded for a call's key, and how its merchant is treated."""

    answer: Answer
    mode: Mode


async def write(connection: Connection, calls: Sequence[ChargeCall]) -> list[tuple[Any, ...]]:
    """Writes calls in one commit.

    Returns a row for each: its merchant's mode, None for OK, and the columns of `answer_from`. These are None for a key
    that was new.
    """
    return await (await connection.cursor(binary=True).execute(_WRITE, _columns(calls))).fetchall()


async def insert(connection: Connection, call: ChargeCall) -> None:
    """Writes one call in the transaction of another effect, once for its key."""
    await connection.execute(_INSERT, _columns([call]))


async def read(connection: Connection, keys: Sequence[CallKey]) -> dict[CallKey, Answer]:
    """Returns the answers that are recorded for these keys, without the keys that are fenced."""
    merchants = ENCODE_ARRAY["uuid"]([merchant_id.bytes for merchant_id, _ in keys])
    names = ENCODE_ARRAY["text"]([idempotency_key.encode() for _, idempotency_key in keys])
    rows = await connection.cursor(binary=True).execute(_READ, (merchants, names))
    answers = {keys[n - 1]: answer_from(*columns) for n, *columns in await rows.fetchall()}
    return {key: answer for key, answer in answers.items() if answer is not None}


async def fence(connection: Connection, merchant_id: UUID, idempotency_key: str) -> None:
    """Refuses the call with this key when it arrives; a call that is recorded keeps its answer."""
    await connection.execute(_FENCE, (merchant_id, idempotency_key))


async def set_mode(connection: Connection, merchant_id: UUID, mode: Mode, times: int | None) -> None:
    """Sets how the merchant's next `times` calls are treated, all calls if it is None."""
    await connection.execute(_SET_MODE, (merchant_id, mode, times))


def _columns(calls: Sequence[ChargeCall]) -> list[Array]:
    columns = zip(*[_row(call) for call in calls], strict=True)
    return [ENCODE_ARRAY[type_](column) for type_, column in zip(_COLUMNS.values(), columns, strict=True)]


def _row(call: ChargeCall) -> tuple[Any, ...]:
    key = (call.merchant_id.bytes, call.idempotency_key.encode())
    card = (call.card_bin.encode(), call.card_last4.encode())
    asked = (*key, scaled(call.amount), call.currency.encode(), call.capture, *card)
    answer = call.answer
    if isinstance(answer, Approved):
        code = answer.authorization_code
        granted = (scaled(answer.authorized), scaled(answer.captured), call.reference.encode())
        return (*asked, *granted, code.encode() if code else None, None, None, None)
    message = answer.message.encode() if answer.message else None
    return (*asked, 0, 0, call.reference.encode(), None, answer.code.encode(), message, answer.refused_by.encode())


def answer_from(
    authorized: int, captured: int, reference: str, authorization_code: str | None,
    decline_code: str | None, decline_message: str | None, refused_by: str | None,
) -> Answer | None:  # fmt: skip
    """Returns the answer that the columns of a row hold, in the order in which `WRITE` and `READ` select them.

    None is a key that is fenced.
    """
    if decline_code == _FENCED:
        return None
    if decline_code is not None:
        return Declined(code=decline_code, message=decline_message, refused_by=RefusedBy(str(refused_by)))
    return Approved(
        authorized=shortest(Decimal(authorized) / SCALE),
        captured=shortest(Decimal(captured) / SCALE),
        processor_reference=reference,
        authorization_code=authorization_code,
    )
