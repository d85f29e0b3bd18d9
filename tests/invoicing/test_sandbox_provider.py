"""The simulated stamping provider: what it checks, what it signs, and what it knows after a crash."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest
from lxml import etree
from satcfdi.models import Certificate
from tests.invoicing import documents
from tests.invoicing.conftest import about, to_cancel, to_look_up, to_stamp

from ledger.invoicing.certificates import generate_csd, load_signer
from ledger.invoicing.contract import Cancelled, ProviderTimedOut, ProviderUnavailable, Refused, Stamped
from ledger.invoicing.providers.sandbox import REFUSAL, SandboxProvider
from ledger.invoicing.stamped_xml import CFD, TFD, original_chain, parse_cfdi

pytestmark = pytest.mark.anyio


async def test_a_sealed_document_gets_a_stamp_that_its_own_key_signed(provider, signer):
    xml = documents.invoice(signer)
    stamped = await provider.stamp(to_stamp(xml))
    assert isinstance(stamped, Stamped)
    root = parse_cfdi(stamped.xml)
    stamp = root.find(f"{CFD}Complemento/{TFD}TimbreFiscalDigital")
    assert stamp.get("UUID") == str(stamped.fiscal_uuid).upper() == stamped.invoice_id
    assert stamp.get("SelloCFD") == root.get("Sello")
    async with provider._database.transaction() as connection:
        certificate, _ = await (
            await connection.execute("select certificate, key from sandbox_stamping_key")
        ).fetchone()
    key = Certificate.load_certificate(certificate)
    assert stamp.get("NoCertificadoSAT") == key.certificate_number
    assert key.verify_sha256(original_chain(stamp, "1.1"), base64.b64decode(stamp.get("SelloSAT")))


async def test_a_stamp_changes_nothing_of_the_document_and_leaves_its_seal_valid(provider, signer):
    parent = (await provider.stamp(to_stamp(documents.invoice(signer)))).xml
    for xml in (documents.receipt(signer, parent), documents.credit_note(signer, parent)):
        root = parse_cfdi((await provider.stamp(to_stamp(xml))).xml)
        assert len(root.findall(f"{CFD}Complemento")) == 1
        stamp = root.find(f"{CFD}Complemento/{TFD}TimbreFiscalDigital")
        assert signer.verify_sha256(original_chain(root, "4.0"), base64.b64decode(root.get("Sello")))
        complement = stamp.getparent()
        complement.remove(stamp)
        if len(complement) == 0:
            root.remove(complement)
        assert etree.tostring(root, method="c14n") == etree.tostring(parse_cfdi(xml), method="c14n")


async def test_a_document_asked_twice_has_one_stamp_even_at_once(provider, signer):
    asked = to_stamp(documents.invoice(signer))
    first, *others = await asyncio.gather(*[provider.stamp(asked) for _ in range(5)])
    assert all(other == first for other in others)
    again = msgspec.structs.replace(asked, xml=documents.invoice(signer, folio="1002"))
    assert await provider.stamp(again) == first, "the id decides, not the document"


async def test_the_same_document_under_another_id_is_refused_as_stamped_before(provider, signer):
    asked = to_stamp(documents.invoice(signer))
    await provider.stamp(asked)
    refused = await provider.stamp(msgspec.structs.replace(asked, document_id=uuid4()))
    assert refused == Refused(code="307", message="El CFDI contiene un timbre previo.")


async def test_a_look_up_finds_what_another_process_had_stamped(provider, database_url, signer):
    asked = to_stamp(documents.invoice(signer))
    assert await provider.look_up(to_look_up(asked)) is None
    stamped = await provider.stamp(asked)
    elsewhere = SandboxProvider(database_url)
    assert await elsewhere.look_up(to_look_up(asked)) == stamped
    other = msgspec.structs.replace(asked, document_id=uuid4(), xml=documents.invoice(signer, folio="2"))
    assert (await elsewhere.stamp(other)).xml.count(b"NoCertificadoSAT") == 1, "it uses the key of the first process"
    assert await elsewhere.look_up(to_look_up(msgspec.structs.replace(asked, merchant_id=uuid4()))) is None
    await elsewhere.stop()


async def test_a_fenced_document_is_never_stamped(provider, signer):
    asked = to_stamp(documents.invoice(signer))
    assert await provider.look_up(to_look_up(asked, fence=True)) is None
    with pytest.raises(ProviderUnavailable):
        await provider.stamp(asked)
    assert await provider.look_up(to_look_up(asked)) is None
    stamped_before = to_stamp(documents.invoice(signer, folio="2"))
    stamped = await provider.stamp(stamped_before)
    assert await provider.look_up(to_look_up(stamped_before, fence=True)) == stamped


def sealed_by(other, xml):
    """The document with another taxpayer's certificate and seal."""
    root = parse_cfdi(xml)
    root.set("NoCertificado", other.certificate_number)
    root.set("Certificado", other.certificate_base64())
    root.set("Sello", other.sign_sha256(original_chain(root, "4.0")))
    return etree.tostring(root)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda xml, _: xml.replace(b'Total="1160.00"', b'Total="1160.01"'), "CFDI40102"),
        (lambda xml, _: xml.replace(b'Fecha="20', b'Fecha="19'), "305"),
        (lambda xml, _: xml[:-20], "301"),
        (lambda _, __: b"<a/>", "301"),
        (lambda _, __: b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "301"),
        (lambda xml, other: sealed_by(other, xml), "303"),
    ],
    ids=["changed", "outside the certificate", "cut off", "no CFDI", "entities", "another taxpayer"],
)
async def test_what_its_issuer_did_not_seal_is_refused_with_the_tax_authoritys_code(provider, signer, spoil, code):
    xml = documents.invoice(signer)
    assert b'Total="1160.00"' in xml
    other = load_signer(generate_csd("XIA190128J61", "XENON INDUSTRIAL ARTICLES", "30001000000500003417"))
    refused = await provider.stamp(to_stamp(spoil(xml, other)))
    assert isinstance(refused, Refused)
    assert refused.code == code


async def test_a_stamped_document_is_not_stamped_again(provider, signer):
    stamped = await provider.stamp(to_stamp(documents.invoice(signer)))
    assert (await provider.stamp(to_stamp(stamped.xml))).code == "307"


async def test_the_modes_refuse_with_the_given_words_or_are_down_for_as_many_calls(provider, signer):
    asked = to_stamp(documents.invoice(signer))
    words = Refused(code="CFDI40999", message="Palabras del proveedor.")
    await provider.set_mode(asked.merchant_id, "REFUSE", 1, words)
    assert await provider.stamp(asked) == words
    await provider.set_mode(asked.merchant_id, "DOWN", 2)
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            await provider.stamp(asked)
    assert isinstance(await provider.stamp(asked), Stamped), "a refusal is not remembered"
    await provider.set_mode(asked.merchant_id, "REFUSE")
    other = to_stamp(documents.invoice(signer, folio="2"))
    assert isinstance(await provider.stamp(other), Stamped), "another merchant is treated as usual"
    mine = msgspec.structs.replace(to_stamp(documents.invoice(signer, folio="3")), merchant_id=asked.merchant_id)
    assert await provider.stamp(mine) == REFUSAL
    await provider.set_mode(asked.merchant_id, "OK")
    assert isinstance(await provider.stamp(mine), Stamped)


async def test_an_answer_that_comes_too_late_is_a_time_out_and_the_document_is_stamped(database_url, signer):
    slow = SandboxProvider(database_url, delay_s=600)
    await slow._loaded_signer()
    asked = to_stamp(documents.invoice(signer), seconds=0.5)
    with pytest.raises(ProviderTimedOut):
        await slow.stamp(asked)
    await slow.stop()
    found = await SandboxProvider(database_url).look_up(to_look_up(asked))
    assert isinstance(found, Stamped)


async def test_a_call_whose_caller_has_given_up_is_carried_out(provider, signer):
    await provider._loaded_signer()
    xml = documents.invoice(signer)
    async with provider._database._turn:  # another call has the connection
        asked = to_stamp(xml, seconds=0.5)
        with pytest.raises(ProviderTimedOut):
            await provider.stamp(asked)
    await provider._running.drain()
    assert isinstance(await provider.look_up(to_look_up(asked)), Stamped)


async def test_nothing_is_sent_after_the_deadline(provider, signer):
    asked = to_stamp(documents.invoice(signer), seconds=-1)
    with pytest.raises(ProviderUnavailable):
        await provider.stamp(asked)
    assert await provider.look_up(to_look_up(asked)) is None


async def test_a_document_is_cancelled_once_by_the_rules_of_its_motive(provider, signer):
    asked = to_stamp(documents.invoice(signer))
    stamped = await provider.stamp(asked)
    assert (await provider.status(about(asked, stamped))).state == "ACTIVE"
    assert (await provider.cancel(to_cancel(asked, stamped, signer, "01"))).code == "208"
    assert (await provider.cancel(to_cancel(asked, stamped, signer, "03", substituted_by=uuid4()))).code == "209"
    unknown = msgspec.structs.replace(stamped, fiscal_uuid=uuid4())
    assert (await provider.cancel(to_cancel(asked, unknown, signer))).code == "205"
    assert (await provider.status(about(asked, unknown))).state == "NOT_FOUND"
    assert (await provider.status(about(asked, stamped))).state == "ACTIVE"
    assert await provider.cancel(to_cancel(asked, stamped, signer, "01", substituted_by=uuid4())) == Cancelled(
        code="201"
    )
    assert await provider.cancel(to_cancel(asked, stamped, signer)) == Cancelled(code="202")
    assert (await provider.status(about(asked, stamped))).state == "CANCELLED"


async def test_a_stamp_is_never_older_than_its_document(provider, signer):
    ahead = (datetime.now(UTC) + timedelta(days=40)).replace(tzinfo=None, microsecond=0)
    stamped = await provider.stamp(to_stamp(documents.invoice(signer, fecha=ahead)))
    stamp = parse_cfdi(stamped.xml).find(f"{CFD}Complemento/{TFD}TimbreFiscalDigital")
    assert stamp.get("FechaTimbrado") == ahead.isoformat()
