"""What stands in the sandbox processor's book: a call, its answer, and the statements that write and read them.

The rule a stranger would break: neither a card number nor a CVC has a place here, not for a moment. Six digits and four
are all that a call brings along.
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

_COLUMNS: Final = {
    "merchant_id": "uuid",
    "idempotency_key": "text",
    "amount": "int8",
    "currency": "text",
    "capture": "bool",
    "card_bin": "text",
    "card_last4": "text",
    "authorized": "int8",
    "captured": "int8",
    "reference": "text",
    "authorization_code": "text",
    "decline_code": "text",
    "decline_message": "text",
    "refused_by": "text",
}

# Book a group of calls in one commit: leave out those of merchants for whom the processor is down, and those whose key
# is booked already, here or in another process. Sorted, so that two groups with the same keys queue and do not deadlock.
_BOOK: Final = """
with call as (
  select * from unnest({arrays}) with ordinality as c({columns}, n)),
treated as (  -- merchants with a mode, and for how many of their calls it still holds
  update sandbox_mode m set times_left = m.times_left - c.calls
    from (select merchant_id, count(*) as calls from call group by merchant_id) c
   where m.merchant_id = c.merchant_id and m.mode <> 'OK' and (m.times_left is null or m.times_left > 0)
  returning m.merchant_id, m.mode, m.times_left + c.calls as times),
special as (
  select c.n, t.mode
    from (select n, merchant_id, row_number() over (partition by merchant_id order by n) as k from call) c
    join treated t on t.merchant_id = c.merchant_id and (t.times is null or c.k <= t.times)),
booked as (
  insert into sandbox_charge ({columns})
  select {columns} from call where n not in (select n from special where mode = 'DOWN')
   order by merchant_id, idempotency_key, n
  on conflict do nothing
  returning merchant_id, idempotency_key)
select s.mode, b.merchant_id is not null
  from call c
  left join special s on s.n = c.n
  left join booked b on b.merchant_id = c.merchant_id and b.idempotency_key = c.idempotency_key
 order by c.n
"""
BOOK: Final = _BOOK.format(
    columns=", ".join(_COLUMNS), arrays=", ".join(f"%s::{type_}[]" for type_ in _COLUMNS.values())
)

# The answers that stand in the book for these keys.
READ: Final = """
select k.n, c.authorized, c.captured, c.reference, c.authorization_code, c.decline_code, c.decline_message, c.refused_by
  from unnest(%s::uuid[], %s::text[]) with ordinality as k(merchant_id, idempotency_key, n)
  join sandbox_charge c on c.merchant_id = k.merchant_id and c.idempotency_key = k.idempotency_key
"""

# How the merchant's next calls are to be treated.
SET_MODE: Final = """
insert into sandbox_mode (merchant_id, mode, times_left) values (%s, %s, %s)
on conflict (merchant_id) do update set mode = excluded.mode, times_left = excluded.times_left
"""

Answer = Approved | Declined


class Mode(StrEnum):
    """How the sandbox processor treats a merchant's calls."""

    OK = "OK"
    DOWN = "DOWN"
    SLOW = "SLOW"


class ChargeCall(Struct, frozen=True, kw_only=True):
    """A call as the book keeps it, with the answer that its card asks for. `amount` in minor units of `currency`."""

    merchant_id: UUID
    idempotency_key: str
    amount: Decimal
    currency: str
    capture: bool
    card_bin: str
    card_last4: str
    reference: str
    answer: Answer


class BookedCharge(Struct, frozen=True):
    """What stands in the book for a call, and how its merchant is treated."""

    answer: Answer
    mode: Mode


def packed(calls: Sequence[ChargeCall]) -> list[Array]:
    columns = zip(*[_row(call) for call in calls], strict=True)
    return [ENCODE_ARRAY[type_](column) for type_, column in zip(_COLUMNS.values(), columns, strict=True)]


def _row(call: ChargeCall) -> tuple[Any, ...]:
    asked = (
        call.merchant_id.bytes,
        call.idempotency_key.encode(),
        scaled(call.amount),
        call.currency.encode(),
        call.capture,
        call.card_bin.encode(),
        call.card_last4.encode(),
    )
    answer = call.answer
    if isinstance(answer, Approved):
        code = answer.authorization_code
        granted = (scaled(answer.authorized), scaled(answer.captured), call.reference.encode())
        return (*asked, *granted, code.encode() if code else None, None, None, None)
    message = answer.message.encode() if answer.message else None
    return (*asked, 0, 0, call.reference.encode(), None, answer.code.encode(), message, answer.refused_by.encode())


def answer_from(
    authorized: int, captured: int, reference: str, authorization_code: str | None,
    decline_code: str | None, decline_message: str | None, refused_by: str,
) -> Answer:  # fmt: skip
    if decline_code is not None:
        return Declined(code=decline_code, message=decline_message, refused_by=RefusedBy(refused_by))
    return Approved(
        authorized=shortest(Decimal(authorized) / SCALE),
        captured=shortest(Decimal(captured) / SCALE),
        processor_reference=reference,
        authorization_code=authorization_code,
    )
