"""The merchants' certificates: held sealed, opened once, and replaced without losing the old ones."""

from uuid import uuid4

import msgspec
import psycopg
import pytest
from tests.invoicing.documents import LEGAL_NAME, NUMBER, RFC

from ledger.domain.orders.invoices.terms import Issuer
from ledger.invoicing import issuers as module
from ledger.invoicing.certificates import generate_csd
from ledger.invoicing.issuers import ISSUER_KEYS, IssuerMissing, Issuers
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.postgres.connection import connect

pytestmark = pytest.mark.anyio

OLD, NEW = b"o" * 32, b"n" * 32
ISSUER = Issuer(rfc=RFC, legal_name=LEGAL_NAME, tax_system="601", zip_code="42501", series="F")


@pytest.fixture
async def open_issuers(database_url):
    opened = []

    def make(*keys, is_sandbox=False):
        opened.append(Issuers(database_url, SealingKeys(keys or (OLD,), holder="issuer"), is_sandbox=is_sandbox))
        return opened[-1]

    yield make
    for each in opened:
        await each.stop()


@pytest.fixture(scope="module")
def later_csd():
    return generate_csd(RFC, LEGAL_NAME, "30001000000500003499")


async def test_a_certificate_is_stored_sealed_and_opened_once_per_process(open_issuers, database_url, csd, monkeypatch):
    issuers, merchant = open_issuers(), uuid4()
    found = await issuers.set(merchant, ISSUER, csd)
    assert (found.issuer, found.certificate_number) == (ISSUER, NUMBER)
    assert found.valid_from < found.valid_until
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select row(i.*)::text, wrapped_key from fiscal_issuer i").fetchone()
    assert csd.key.hex() not in row[0]
    assert csd.key not in row[1]
    issuer, signer = await open_issuers().signer_of(merchant)
    assert (issuer, signer.rfc, signer.certificate_number) == (ISSUER, RFC, NUMBER)
    _, first = await issuers.signer_of(merchant)
    monkeypatch.setattr(module, "load_signer", None)
    assert (await issuers.signer_of(merchant))[1] is first


async def test_a_replaced_certificate_seals_new_documents_in_every_process_and_the_old_one_stays(
    open_issuers, csd, later_csd
):
    one, other, merchant = open_issuers(), open_issuers(), uuid4()
    await one.set(merchant, ISSUER, csd)
    await other.signer_of(merchant)
    moved = msgspec.structs.replace(ISSUER, zip_code="06000")
    await one.set(merchant, moved, later_csd)
    issuer, signer = await other.signer_of(merchant)
    assert (issuer, signer.certificate_number) == (moved, "30001000000500003499")
    assert (await other.signer_of(merchant, NUMBER))[1].certificate_number == NUMBER
    await one.set(merchant, ISSUER, csd)
    assert (await other.find(merchant)).certificate_number == NUMBER, "set again, it is the newest"
    with pytest.raises(IssuerMissing):
        await one.signer_of(merchant, "30001000000500000000")


async def test_a_merchant_without_a_certificate_has_none_in_production(open_issuers):
    with pytest.raises(IssuerMissing):
        await open_issuers().signer_of(uuid4())


async def test_a_merchant_of_the_sandbox_gets_one_test_issuer_for_all_processes(open_issuers):
    one, other, merchant = open_issuers(is_sandbox=True), open_issuers(is_sandbox=True), uuid4()
    issuer, signer = await one.signer_of(merchant)
    assert issuer.rfc == signer.rfc == "EKU9003173C9"
    assert (await other.signer_of(merchant))[1].certificate_bytes() == signer.certificate_bytes()


async def test_a_row_of_another_merchant_does_not_open(open_issuers, database_url, csd):
    issuers, merchant = open_issuers(), uuid4()
    await issuers.set(merchant, ISSUER, csd)
    thief = uuid4()
    with psycopg.connect(database_url) as connection:
        connection.execute("update fiscal_issuer set merchant_id = %s", [thief])
    with pytest.raises(SealBroken):
        await issuers.signer_of(thief)


async def test_keys_are_rewrapped_under_the_newest_sealing_key(open_issuers, database_url, csd):
    merchant = uuid4()
    await open_issuers(OLD).set(merchant, ISSUER, csd)
    with pytest.raises(KeyUnavailable):
        await open_issuers(NEW).signer_of(merchant)
    async with await connect(database_url, "test") as connection:
        assert await rewrap(connection, SealingKeys([NEW, OLD]), ISSUER_KEYS) == 1
        assert await rewrap(connection, SealingKeys([NEW, OLD]), ISSUER_KEYS) == 0
    assert (await open_issuers(NEW).signer_of(merchant))[1].certificate_number == NUMBER
