"""The books of the simulated processor: the records of each account are kept under an id of their own.

The account `sandbox` of a merchant is kept under the merchant's own id, every other one under an id that follows from
the merchant and the account's name. Nothing that is recorded in one book is seen in another.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.postgres.connection import Connection

NAME: Final = "sandbox"
"""The name of the processor, and of the account that every merchant of a sandbox has."""

# A book is opened once.
_OPEN: Final = """
insert into sandbox_account (book_id, merchant_id, account) values (%s, %s, %s) on conflict do nothing
"""
_OWNER: Final = "select merchant_id, account from sandbox_account where book_id = %s"
_BOOKS: Final = "select merchant_id, account from sandbox_account order by merchant_id, account"
_IS_OPEN: Final = "select 1 from sandbox_account where book_id = %s"


class BookOwner(Struct, frozen=True):
    """Whose book it is. `account` is None for the account that is named as the processor."""

    merchant_id: UUID
    account: str | None = None


def book_of(merchant_id: UUID, account: str | None) -> UUID:
    """Returns the id under which the records of an account are kept."""
    return merchant_id if account in {None, NAME} else uuid5(merchant_id, f"sandbox-account:{account}")


async def open_book(connection: Connection, merchant_id: UUID, account: str) -> None:
    """Opens the book of an account, unless it is open."""
    await connection.execute(_OPEN, (book_of(merchant_id, account), merchant_id, account))


async def is_open(connection: Connection, merchant_id: UUID, account: str) -> bool:
    """Returns whether the merchant has opened an account of this name."""
    return await (await connection.execute(_IS_OPEN, (book_of(merchant_id, account),))).fetchone() is not None


async def owner_of(connection: Connection, book_id: UUID) -> BookOwner:
    """Returns the owner of a book."""
    row = await (await connection.execute(_OWNER, (book_id,))).fetchone()
    return BookOwner(book_id) if row is None else BookOwner(*row)


async def opened_books(connection: Connection) -> list[BookOwner]:
    """Returns the owners of all books beside those of the accounts that every merchant has."""
    return [BookOwner(*row) for row in await (await connection.execute(_BOOKS)).fetchall()]
