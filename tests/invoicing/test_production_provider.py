"""The adapters to Finkok and SW sapien, against a local server with the providers' documented answers and failures."""

import base64
import socket
import ssl
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
import requests
from lxml import etree
from tests.invoicing import documents
from tests.invoicing import provider_server as server
from tests.invoicing.conftest import about, to_cancel, to_look_up, to_stamp

from ledger.invoicing.certificates import generate_csd, load_signer
from ledger.invoicing.contract import (
    CancellationPending,
    Cancelled,
    ProviderTimedOut,
    ProviderUnavailable,
    Refused,
    Stamped,
)
from ledger.invoicing.providers import transport
from ledger.invoicing.providers.production import open_provider
from ledger.invoicing.providers.seals import add_stamp, check_seal

pytestmark = pytest.mark.anyio

UUID_OF_IT = UUID("5803eb8d-81cd-4557-8719-26632d2fa434")
UPPER = str(UUID_OF_IT).upper()
WORDS = "El campo Nombre del receptor, debe pertenecer al nombre asociado al RFC registrado en el campo Rfc."
FAILURE = [("CFDI40145", WORDS), ("CFDI40148", "Otra.")]


@pytest.fixture(scope="module")
def stamp():
    provider = load_signer(generate_csd("SPR190613I52", "PAC", "30001000000500003456", branch="PACSPR190613I52"))
    return lambda xml: add_stamp(check_seal(xml), provider, UUID_OF_IT, datetime.now(UTC))


@pytest.fixture(scope="module")
def document(signer):
    return documents.invoice(signer)


@pytest.fixture(scope="module")
def stamped(stamp, document):
    return stamp(document)


@pytest.fixture
def remote():
    with server.running() as provider:
        yield provider


@pytest.fixture
async def finkok(remote):
    provider = open_provider("finkok", user="u@example.com", secret="p<w", is_production=True, url=remote.url)
    yield provider
    remote.released.set()
    await provider.stop()


@pytest.fixture
async def sapien(remote):
    provider = open_provider("sw-sapien", user="", secret="t0ken", is_production=True, url=remote.url)
    yield provider
    remote.released.set()
    await provider.stop()


@pytest.fixture(params=["finkok", "sw-sapien"])
def either(request):
    return request.getfixturevalue({"finkok": "finkok", "sw-sapien": "sapien"}[request.param])


def kept(xml):
    return Stamped(fiscal_uuid=UUID_OF_IT, invoice_id=UPPER, xml=xml, stamped_at=datetime.now(UTC))


def sw_stamped(xml, **more):
    return {"data": {"cfdi": xml.decode(), "uuid": str(UUID_OF_IT), "qrCode": "…"}, "status": "success"} | more


# ---------------------------------------------------------------- Finkok


async def test_finkok_stamps_the_very_bytes_that_were_sealed(finkok, remote, document, stamped):
    remote.says(200, server.finkok_stamped(stamped, UPPER))
    answer = await finkok.stamp(to_stamp(document))
    assert isinstance(answer, Stamped)
    assert (answer.fiscal_uuid, answer.invoice_id, answer.xml) == (UUID_OF_IT, UPPER, stamped)
    (asked,) = remote.asked
    assert asked.path == "/servicios/soap/stamp.wsdl"
    sent = etree.fromstring(asked.body)
    assert base64.b64decode(sent.findtext(".//{*}xml")) == document
    assert (sent.findtext(".//{*}username"), sent.findtext(".//{*}password")) == ("u@example.com", "p<w")


async def test_finkok_refuses_in_its_own_words(finkok, remote, document):
    remote.says(200, server.finkok_refused(*FAILURE))
    assert await finkok.stamp(to_stamp(document)) == Refused(code="CFDI40145", message=WORDS)


async def test_finkoks_answer_to_a_repeated_document_is_its_first_stamp_once_it_has_it(
    finkok, remote, document, stamped
):
    before = ("307", "El CFDI contiene un timbre previo")
    remote.says(200, server.finkok_refused(before, before))
    with pytest.raises(ProviderTimedOut):
        await finkok.stamp(to_stamp(document))
    remote.says(200, server.finkok_stamped(stamped, UPPER, before))
    assert (await finkok.stamp(to_stamp(document))).fiscal_uuid == UUID_OF_IT


async def test_finkok_looks_a_document_up_by_its_seal(finkok, remote, document, stamped):
    asked = to_look_up(to_stamp(document))
    remote.says(200, server.finkok_stamped(stamped, UPPER))
    assert (await finkok.look_up(asked)).xml == stamped
    assert b"stamped>" in remote.asked[-1].body
    remote.says(200, server.finkok_refused(("603", "El CFDI no contiene un timbre previo")))
    assert await finkok.look_up(asked) is None
    remote.says(200, server.finkok_refused(("300", "Usuario o contraseña inválidos")))
    with pytest.raises(ProviderTimedOut):
        await finkok.look_up(asked)


async def test_a_stamp_of_another_document_is_not_taken_for_this_ones(finkok, remote, document, stamp, signer):
    other = stamp(documents.invoice(signer, folio="9"))
    remote.says(200, server.finkok_stamped(other, UPPER))
    with pytest.raises(ProviderTimedOut, match="another document"):
        await finkok.stamp(to_stamp(document))


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        ("201", "Cancelado sin aceptación", Cancelled),
        ("202", "", Cancelled),
        ("201", "En proceso", CancellationPending),
        ("201", "", CancellationPending),
        ("no_cancelable", "", Refused),
    ],
)
async def test_finkok_cancels_with_the_issuers_signature(
    finkok, remote, document, stamped, signer, code, words, expected
):
    asked, done = to_stamp(document), kept(stamped)
    remote.says(200, server.finkok_cancelled(UPPER, code, words))
    answer = await finkok.cancel(to_cancel(asked, done, signer, "01", substituted_by=uuid4()))
    assert type(answer) is expected
    assert answer.code == code
    request = etree.fromstring(base64.b64decode(etree.fromstring(remote.asked[0].body).findtext(".//{*}xml")))
    folio = request.find(".//{*}Folio")
    assert (folio.get("UUID"), folio.get("Motivo")) == (UPPER, "01")
    assert folio.get("FolioSustitucion")
    assert request.find(".//{*}Signature") is not None


async def test_finkoks_errors_of_a_cancellation_keep_their_words(finkok, remote, document, stamped, signer):
    done = kept(stamped)
    remote.says(200, server.finkok_cancelled(UPPER, "", status="205 - UUID No Encontrado"))
    assert await finkok.cancel(to_cancel(to_stamp(document), done, signer)) == Refused(
        code="205", message="205 - UUID No Encontrado"
    )
    remote.says(200, server.finkok_cancelled(UPPER, "708"))
    with pytest.raises(ProviderTimedOut):
        await finkok.cancel(to_cancel(to_stamp(document), done, signer))


# ---------------------------------------------------------------- SW sapien


async def test_sapien_stamps_under_our_documents_id(sapien, remote, document, stamped):
    remote.says(200, sw_stamped(stamped))
    request = to_stamp(document)
    answer = await sapien.stamp(request)
    assert (answer.fiscal_uuid, answer.invoice_id, answer.xml) == (UUID_OF_IT, str(UUID_OF_IT), stamped)
    (asked,) = remote.asked
    assert asked.path == "/v4/cfdi33/stamp/v4"
    assert asked.headers["customid"] == str(request.document_id)
    assert asked.headers["authorization"] == "Bearer t0ken"
    assert document in asked.body


async def test_sapien_refuses_in_its_own_words(sapien, remote, document):
    words = f"CFDI40145 - {WORDS}"
    remote.says(400, {"message": words, "messageDetail": "Detalle.", "data": None, "status": "error"})
    assert await sapien.stamp(to_stamp(document)) == Refused(code="CFDI40145", message=f"{words} Detalle.")
    assert await sapien.look_up(to_look_up(to_stamp(document))) is None


@pytest.mark.parametrize(
    "words",
    ["307. El comprobante contiene un timbre previo.", "CFDI3307 - Timbre duplicado. El customId está duplicado."],
)
async def test_sapiens_answer_to_a_repeated_document_is_its_first_stamp(sapien, remote, document, stamped, words):
    error = {"message": words, "messageDetail": None, "status": "error"}
    remote.says(400, sw_stamped(stamped) | error)
    assert (await sapien.stamp(to_stamp(document))).xml == stamped
    remote.says(400, {"data": {"tfd": "…", "cfdi": stamped.decode()}} | error)
    assert (await sapien.look_up(to_look_up(to_stamp(document)))).fiscal_uuid == UUID_OF_IT
    remote.says(400, {"data": None} | error)
    with pytest.raises(ProviderTimedOut):
        await sapien.stamp(to_stamp(document))


async def test_sapien_cancels_with_the_issuers_signature(sapien, remote, document, stamped, signer):
    done = kept(stamped)
    request = to_cancel(to_stamp(document), done, signer)
    remote.says(200, {"data": {"acuse": "<Acuse/>", "uuid": {UPPER: "202"}}, "status": "success"})
    assert await sapien.cancel(request) == Cancelled(code="202", receipt=b"<Acuse/>")
    assert remote.asked[0].path == "/cfdi33/cancel/xml"
    assert b"Signature" in remote.asked[0].body
    remote.says(200, {"data": {"acuse": "<Acuse/>", "uuid": {UPPER.lower(): "201"}}, "status": "success"})
    assert type(await sapien.cancel(request)) is CancellationPending
    remote.says(400, {"message": "CACFDI33 - Problemas.", "messageDetail": "205 - No existe.", "status": "error"})
    assert await sapien.cancel(request) == Refused(code="CACFDI33", message="CACFDI33 - Problemas. 205 - No existe.")


# ---------------------------------------------------------------- failures, of either


async def test_an_answer_that_does_not_come_is_a_time_out_at_the_deadline(finkok, remote, document):
    remote.holds()
    with pytest.raises(ProviderTimedOut):
        await finkok.stamp(to_stamp(document, seconds=2))
    assert len(remote.asked) == 1, "it was sent, and sent once"


async def test_a_connection_that_breaks_after_the_request_is_a_time_out(either, remote, document):
    remote.answer = lambda _: None
    with pytest.raises(ProviderTimedOut):
        await either.stamp(to_stamp(document))
    assert len(remote.asked) == 1


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"error"), (503, b""), (302, b""), (200, b""), (200, b"<a"), (200, b"{}"), (200, b"[]"), (200, b"<a/>")],
)
async def test_an_answer_that_cannot_be_understood_is_a_time_out(either, remote, document, status, body):
    remote.says(status, body)
    with pytest.raises(ProviderTimedOut):
        await either.stamp(to_stamp(document))
    assert len(remote.asked) == 1, "no redirect is followed, nothing is sent again"


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_a_request_that_was_turned_away_had_no_effect(either, remote, document, status):
    remote.says(status, b'{"status": "error", "message": "no"}')
    with pytest.raises(ProviderUnavailable):
        await either.stamp(to_stamp(document))


@pytest.mark.parametrize("name", ["finkok", "sw-sapien"])
async def test_a_provider_that_cannot_be_reached_is_unavailable(name, document):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        provider = open_provider(name, user="u", secret="s", is_production=True, url=url)
        with pytest.raises(ProviderUnavailable):
            await provider.stamp(to_stamp(document))
        await provider.stop()


async def test_nothing_is_sent_after_the_deadline(either, remote, document):
    with pytest.raises(ProviderUnavailable):
        await either.stamp(to_stamp(document, seconds=-1))
    assert remote.asked == []


async def test_an_answer_without_end_is_given_up(either, remote, document, monkeypatch):
    monkeypatch.setattr(transport, "_ANSWER_MAX", 1000)
    remote.says(200, b"x" * 100_000)
    with pytest.raises(ProviderTimedOut, match="too large"):
        await either.stamp(to_stamp(document))


def test_a_certificate_that_is_not_trusted_means_that_nothing_was_sent():
    refused = ssl.SSLCertVerificationError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert transport._was_never_sent(requests.exceptions.SSLError(refused))
    assert not transport._was_never_sent(requests.exceptions.SSLError("decryption failed or bad record mac"))
    assert not transport._was_never_sent(requests.exceptions.ReadTimeout())
    assert not transport._was_never_sent(requests.exceptions.ConnectionError("Connection aborted."))


# ---------------------------------------------------------------- the states that SAT reports


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"Estado": "Vigente", "EstatusCancelacion": ""}, "ACTIVE"),
        ({"Estado": "Vigente", "EstatusCancelacion": "En proceso"}, "CANCELLATION_PENDING"),
        ({"Estado": "Vigente", "EstatusCancelacion": "Solicitud rechazada"}, "CANCELLATION_REFUSED"),
        ({"Estado": "Cancelado", "EstatusCancelacion": "Cancelado con aceptación"}, "CANCELLED"),
        ({"Estado": "No Encontrado"}, "NOT_FOUND"),
    ],
)
async def test_the_state_of_a_document_is_sats_own(either, remote, document, stamped, facts, state):
    remote.says(200, server.sat_report(CodigoEstatus="S - Comprobante obtenido satisfactoriamente.", **facts))
    done = kept(stamped)
    status = await either.status(about(to_stamp(document), done))
    assert status.state == state
    assert status.detail == " ".join(value for value in facts.values() if value)
    assert UPPER.encode() in remote.asked[0].body
