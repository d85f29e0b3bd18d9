"""The rows of merchants' accounts with processors, without their secrets, and the accounts as they are answered.

A row has the account's state, of which the answer is made when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ledger.domain.money import shortest
from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode, AccountStatus, CircuitState
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.merchant_reads import rows_of_merchants
from projections.binary import micros
from projections.formats import Moment, moment

# Writes the account's row as it is after the commit. Its name and the time of its first connection never change.
_WRITE: Final = """
insert into processor_account (merchant_id, account_id, version, name, created_at, state)
select merchant_id, account_id, version, name, created_at, state from {rows}
on conflict (merchant_id, account_id) do update set version = excluded.version, state = excluded.state
"""

TABLE: Final = InlineTable(
    "processor_account",
    (
        ("merchant_id", "uuid"),
        ("account_id", "uuid"),
        ("version", "int4"),
        ("name", "text"),
        ("created_at", "timestamptz"),
        ("state", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The accounts of merchants, each merchant's in the order of connection. A row begins with the number of its key.
FIND: Final = """
select q.n, array_agg(a.state order by a.created_at, a.name)
  from unnest(%s::int4[], %s::uuid[]) as q(n, merchant_id)
  join processor_account a on a.merchant_id = q.merchant_id
 group by q.n
"""

_MERCHANTS: Final = "select distinct merchant_id from processor_account order by merchant_id"

# Every account. A run of the worker reads all of them once an hour.
_ALL: Final = "select merchant_id, state from processor_account order by merchant_id, account_id"

_encode: Final = msgspec.json.Encoder(decimal_format="string").encode
_decode: Final = msgspec.json.Decoder(ProcessorAccount).decode


class AccountMethodDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """A method that an account takes."""

    type: Annotated[MethodType, Meta(description="The method.")]
    currencies: Annotated[tuple[str, ...], Meta(description="The currencies in which it is taken.", examples=[["MXN"]])]
    amount_min: Annotated[Decimal, Meta(description="The least amount of a payment, in minor units.")]
    amount_max: Annotated[Decimal, Meta(description="The greatest amount of a payment, in minor units.")]
    installments: Annotated[
        tuple[int, ...] | UnsetType,
        Meta(description="The numbers of monthly payments without interest; absent if there are none."),
    ] = UNSET


class AccountHealthDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether the processor answers payments by a method."""

    method: Annotated[MethodType, Meta(description="The method.")]
    state: Annotated[
        CircuitState,
        Meta(
            description="CLOSED: it answers. OPEN: the last five payments did not reach it, so that for half a minute "
            "another account is asked first. HALF_OPEN: then one payment tries it again."
        ),
    ]


class ProcessorAccountDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """An account of the merchant with a payment processor. No answer has its secret keys."""

    name: Annotated[str, Meta(description="The merchant's own name of the account.", examples=["stripe-mx"])]
    processor: Annotated[str, Meta(description="The processor.", examples=["stripe"])]
    status: Annotated[AccountStatus, Meta(description="A DISCONNECTED account takes no new payments.")]
    mode: Annotated[AccountMode, Meta(description="Whether the account moves money: LIVE.")]
    country: Annotated[str | None, Meta(description="ISO 3166-1 code of the holder's country.", examples=["MX"])]
    methods: Annotated[
        tuple[AccountMethodDocument, ...],
        Meta(description="What it takes, as the last request that connected or changed it left it."),
    ]
    publishable_key: Annotated[
        str | None, Meta(description="The key for the processor's script in the payer's browser.")
    ]
    messages_url: Annotated[
        str | None,
        Meta(
            description="Where the processor is to send its messages. It is entered on the processor's own pages; "
            "null for a simulated account, which needs none.",
            examples=["https://pay.example/api/processor-messages/019a5d0c-7c00-7000-8000-000000000001/stripe-mx"],
        ),
    ]
    health: Annotated[
        tuple[AccountHealthDocument, ...],
        Meta(description="Whether its processor answers, for each method, as the machine that answers has found it."),
    ]
    created_at: Annotated[Moment, Meta(description="When the account was first connected.")]
    updated_at: Annotated[Moment, Meta(description="When it was last connected, changed or disconnected.")]


def row(merchant_id: UUID, version: int, account: ProcessorAccount) -> Row:
    """Returns the account's row at a version of its stream."""
    return (
        merchant_id.bytes,
        account.account_id.bytes,
        version,
        account.name.encode(),
        micros(account.created_at),
        _encode(account),
    )


def find_parameters(merchant_ids: Sequence[bytes]) -> list[bytes]:
    """Returns the columns that FIND unnests, for merchants' ids as bytes."""
    return [ENCODE_ARRAY["int4"](range(len(merchant_ids))), ENCODE_ARRAY["uuid"](merchant_ids)]


def found(row: Sequence[Any]) -> tuple[ProcessorAccount, ...]:
    """Returns a merchant's accounts from a row of FIND, in the order of connection."""
    return tuple(map(_decode, row[1]))


async def find_accounts(
    connection: Connection, merchant_ids: Sequence[UUID]
) -> Mapping[UUID, tuple[ProcessorAccount, ...] | DatabaseUnavailable]:
    """Returns the accounts of merchants, without the merchants that have none: what a process asks for its payments."""
    merchants = [merchant_id.bytes for merchant_id in merchant_ids]
    rows, faults = await rows_of_merchants(
        connection,
        FIND,
        merchants,
        lambda numbers: [ENCODE_ARRAY["int4"](numbers), ENCODE_ARRAY["uuid"]([merchants[n] for n in numbers])],
    )
    return {merchant_ids[row[0]]: found(row) for row in rows} | {merchant_ids[n]: each for n, each in faults.items()}


async def merchants_with_accounts(connection: Connection) -> Sequence[UUID]:
    """Returns the merchants that have ever connected, changed or disconnected an account."""
    return [merchant_id for (merchant_id,) in await (await connection.execute(_MERCHANTS)).fetchall()]


def account_document(
    account: ProcessorAccount, messages_url: str | None, health: Callable[[MethodType], CircuitState]
) -> ProcessorAccountDocument:
    """Returns an account as it is answered, with the address for its processor's messages and the state of methods."""
    terms = account.terms
    return ProcessorAccountDocument(
        name=account.name,
        processor=account.processor,
        status=account.status,
        mode=terms.mode,
        country=terms.country,
        methods=method_documents(terms.methods),
        publishable_key=terms.publishable_key,
        messages_url=messages_url,
        health=tuple(
            AccountHealthDocument(method=method, state=health(method))
            for method in dict.fromkeys(each.type for each in terms.methods)
        ),
        created_at=moment(account.created_at),
        updated_at=moment(account.updated_at),
    )


def method_documents(methods: Sequence[AccountMethod]) -> tuple[AccountMethodDocument, ...]:
    """Returns the methods of an account as they are answered."""
    return tuple(
        AccountMethodDocument(
            type=method.type,
            currencies=method.currencies,
            amount_min=shortest(method.amount_min),
            amount_max=shortest(method.amount_max),
            installments=method.installments or UNSET,
        )
        for method in methods
    )


async def disconnected_accounts(connection: Connection) -> Sequence[tuple[UUID, ProcessorAccount]]:
    """Returns the disconnected accounts of all merchants, each with its merchant."""
    cursor = await connection.execute(_ALL.encode(), (), binary=True)
    accounts = [(merchant_id, _decode(state)) for merchant_id, state in await cursor.fetchall()]
    return [(merchant_id, account) for merchant_id, account in accounts if account.disconnected_at is not None]
