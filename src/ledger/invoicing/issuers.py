"""The merchants as issuers of electronic invoices: their certificates, held sealed, and the signers made of them.

Never log or return a private key. It is stored under a sealing key of the installation, bound to its merchant, and
opened once per process.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec
from cryptography import x509
from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.domain.orders.invoices.terms import Issuer
from ledger.invoicing.catalogs import time_zone_of
from ledger.invoicing.certificates import Csd, certificate_number, generate_csd, load_signer
from ledger.invoicing.database import OnDemandConnection
from ledger.invoicing.logos import Logo
from ledger.journal.encryption.rewrapping import WrappedKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.ttl_cache import TtlCache

if TYPE_CHECKING:
    from satcfdi.models import Signer

# A certificate of a merchant. If it is set again, it becomes the newest, with the issuer's present data.
_SET: Final = """
insert into fiscal_issuer
  (merchant_id, issuer_id, certificate_number, issuer, certificate, sealing_key_id, wrapped_key)
values (%s, %s, %s, %s, %s, %s, %s)
on conflict (merchant_id, certificate_number) do update
   set issuer_id = excluded.issuer_id, issuer = excluded.issuer, certificate = excluded.certificate,
       sealing_key_id = excluded.sealing_key_id, wrapped_key = excluded.wrapped_key, set_at = excluded.set_at
"""
# Stores a certificate unless another process has set one meanwhile.
_SET_FIRST: Final = """
insert into fiscal_issuer
  (merchant_id, issuer_id, certificate_number, issuer, certificate, sealing_key_id, wrapped_key)
values (%s, %s, %s, %s, %s, %s, %s) on conflict do nothing
"""
# The newest certificate of a merchant, or the one with a number.
_FIND: Final = """
select issuer_id, certificate_number, issuer, certificate, sealing_key_id, wrapped_key from fiscal_issuer
 where merchant_id = %s and (%s::text is null or certificate_number = %s) order by set_at desc limit 1
"""
_SET_LOGO: Final = """
insert into fiscal_logo (merchant_id, png) values (%s, %s)
on conflict (merchant_id) do update set png = excluded.png, set_at = excluded.set_at
"""
_REMOVE_LOGO: Final = "delete from fiscal_logo where merchant_id = %s"
_FIND_LOGO: Final = "select png from fiscal_logo where merchant_id = %s"

# The next folio of a series. A second caller waits for the first one's commit and gets another number.
_COUNT: Final = """
insert into invoice_folio as f (merchant_id, series, last) values (%s, %s, 1)
on conflict (merchant_id, series) do update set last = f.last + 1 returning last
"""

ISSUER_KEYS: Final = WrappedKeys(
    next="""
select merchant_id, issuer_id, sealing_key_id, wrapped_key from fiscal_issuer
 where (merchant_id, issuer_id) > (%s, %s) and sealing_key_id <> %s order by merchant_id, issuer_id limit %s
""",
    replace="""
update fiscal_issuer i set sealing_key_id = %s, wrapped_key = q.wrapped
  from unnest(%s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[]) as q(merchant_id, issuer_id, present, wrapped)
 where i.merchant_id = q.merchant_id and i.issuer_id = q.issuer_id and i.wrapped_key = q.present
""",
)
"""The private keys of issuers, for `ledger keys rewrap`."""

TEST_ISSUER: Final = Issuer(
    rfc="EKU9003173C9",
    legal_name="ESCUELA KEMPER URGATE",
    tax_system="601",
    zip_code="42501",
)
"""The issuer of a sandbox's merchant who has set none: a test taxpayer of SAT, with a generated certificate."""
_TEST_NUMBER: Final = "30001000000500003416"

_SIGNERS_MAX: Final = 1000
_SIGNER_TTL_S: Final = 3600.0
_ISSUERS_MAX: Final = 20_000
_ISSUER_TTL_S: Final = 60.0
"""How long a process keeps an opened key."""


class IssuerMissing(Exception):
    """The merchant has set no certificate, or none with this number."""


class FoundIssuer(Struct, frozen=True, kw_only=True):
    """A merchant's issuer and its certificate, without the key."""

    issuer: Issuer
    certificate_number: str
    valid_from: datetime
    valid_until: datetime


class _Row(Struct, frozen=True):
    issuer_id: UUID
    certificate_number: str
    issuer: str
    certificate: bytes
    sealing_key_id: str
    wrapped_key: bytes


class Issuers:
    """The issuers of an installation. `url` is a libpq connection string; `keys` seal private keys.

    With `is_sandbox`, a merchant without a certificate gets a generated one.
    """

    def __init__(self, url: str, keys: SealingKeys, *, is_sandbox: bool) -> None:
        self._database = OnDemandConnection(url, "ledger-issuers")
        self._keys = keys
        self._is_sandbox = is_sandbox
        self._signers = TtlCache[UUID, "Signer"](_SIGNERS_MAX, _SIGNER_TTL_S)
        self._known = TtlCache[UUID, tuple[Issuer | None]](_ISSUERS_MAX, _ISSUER_TTL_S)

    async def stop(self) -> None:
        await self._database.stop()

    async def set(self, merchant_id: UUID, issuer: Issuer, csd: Csd) -> FoundIssuer:
        """Stores a certificate that `certificates.open_csd` has checked. It seals new documents from now on, in every
        process.

        Raises DatabaseUnavailable.
        """
        await self._write(_SET, merchant_id, issuer, csd)
        self._known.drop(merchant_id)
        return await self.find(merchant_id)

    async def find(self, merchant_id: UUID) -> FoundIssuer:
        """Returns the issuer that seals the merchant's new documents. Raises IssuerMissing, DatabaseUnavailable."""
        row = await self._row(merchant_id, None)
        certificate = x509.load_der_x509_certificate(row.certificate)
        return FoundIssuer(
            issuer=_decode(row.issuer),
            certificate_number=row.certificate_number,
            valid_from=certificate.not_valid_before_utc,
            valid_until=certificate.not_valid_after_utc,
        )

    async def known_issuer(self, merchant_id: UUID) -> Issuer | None:
        """Returns the issuer that the merchant has set, at most a minute old; None if it has set none.

        Makes no certificate, in the sandbox either. Raises DatabaseUnavailable.
        """
        known = self._known.get(merchant_id)
        if known is None:
            row = await self._read(merchant_id, None)
            known = (None if row is None else _decode(row.issuer),)
            self._known.put(merchant_id, known)
        return known[0]

    async def time_zone_of(self, merchant_id: UUID) -> str | None:
        """Returns the time zone in which the merchant's documents are dated: that of its issuer's postal code, at most
        a minute old; None if it has no issuer. Raises DatabaseUnavailable.
        """
        issuer = await self.known_issuer(merchant_id) or (TEST_ISSUER if self._is_sandbox else None)
        return None if issuer is None else time_zone_of(issuer.zip_code).key

    async def signer_of(self, merchant_id: UUID, number: str | None = None) -> tuple[Issuer, Signer]:
        """Returns the issuer that seals the merchant's new documents, and its signer.

        `number` selects the certificate that sealed a document before: an equal document then has an equal seal. Raises
        IssuerMissing, DatabaseUnavailable; KeyUnavailable and SealBroken if the key does not open.
        """
        row = await self._row(merchant_id, number)
        signer = self._signers.get(row.issuer_id)
        if signer is None:
            key = self._keys.unwrap(row.sealing_key_id, merchant_id, row.issuer_id, row.wrapped_key)
            try:
                signer = await asyncio.to_thread(load_signer, Csd(row.certificate, key))
            except ValueError:  # numbers without primes, which `open_csd` does not look for
                raise IssuerMissing from None
            self._signers.put(row.issuer_id, signer)
        return _decode(row.issuer), signer

    async def set_logo(self, merchant_id: UUID, logo: Logo | None) -> None:
        """Stores the logo of documents that are printed from now on; None removes it. Raises DatabaseUnavailable."""
        async with self._database.transaction() as connection:
            if logo is None:
                await connection.execute(_REMOVE_LOGO.encode(), (merchant_id,))
            else:
                await connection.execute(_SET_LOGO.encode(), (merchant_id, logo.png))

    async def logo_of(self, merchant_id: UUID) -> bytes | None:
        """Returns the PNG of the merchant's logo, None if there is none. Raises DatabaseUnavailable."""
        async with self._database.transaction() as connection:
            cursor = await connection.execute(_FIND_LOGO.encode(), (merchant_id,), binary=True)
            row: tuple[Any, ...] | None = await cursor.fetchone()
        return None if row is None else bytes(row[0])

    async def next_folio(self, merchant_id: UUID, series: str) -> int:
        """Returns the next number of a series: never one twice, since it is committed before it is used. A number whose
        document is never stamped is lost. Raises DatabaseUnavailable.
        """
        async with self._database.transaction() as connection:
            cursor = await connection.execute(_COUNT.encode(), (merchant_id, series), binary=True)
            row: tuple[int] | None = await cursor.fetchone()
        assert row is not None, "the statement returns the row that it writes"
        return row[0]

    async def _row(self, merchant_id: UUID, number: str | None) -> _Row:
        found = await self._read(merchant_id, number)
        if found is None and self._is_sandbox and number is None:
            csd = await asyncio.to_thread(generate_csd, TEST_ISSUER.rfc, TEST_ISSUER.legal_name, _TEST_NUMBER)
            await self._write(_SET_FIRST, merchant_id, TEST_ISSUER, csd)
            found = await self._read(merchant_id, number)
        if found is None:
            wanted = "certificate" if number is None else f"certificate {number}"
            raise IssuerMissing(f"merchant {merchant_id} has no {wanted}")
        return found

    async def _read(self, merchant_id: UUID, number: str | None) -> _Row | None:
        async with self._database.transaction() as connection:
            cursor = await connection.execute(_FIND.encode(), (merchant_id, number, number), binary=True)
            row: tuple[Any, ...] | None = await cursor.fetchone()
        return None if row is None else _Row(*row)

    async def _write(self, statement: str, merchant_id: UUID, issuer: Issuer, csd: Csd) -> None:
        issuer_id = uuid7()
        number = certificate_number(x509.load_der_x509_certificate(csd.certificate))
        wrapped = self._keys.wrap(merchant_id, issuer_id, csd.key)
        text = msgspec.json.encode(issuer).decode()
        values = (merchant_id, issuer_id, number, text, csd.certificate, self._keys.newest, wrapped)
        async with self._database.transaction() as connection:
            await connection.execute(statement.encode(), values)


def _decode(text: str) -> Issuer:
    return msgspec.json.decode(text, type=Issuer)
