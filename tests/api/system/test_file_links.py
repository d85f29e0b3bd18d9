"""Stored files of documents, served by signed links without an API key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from tests.api.storefront import Merchant, Storefront
from tests.metric_values import metric_value

from ledger.invoicing.files import DocumentFiles, StoredFiles

pytestmark = pytest.mark.anyio

XML, PDF = b"<?xml version='1.0'?><Comprobante/>", b"%PDF-1.3 ..."


@pytest.fixture
async def stored(store: Storefront, merchant: Merchant) -> StoredFiles:
    assert store.ledger.invoicing

    async def printed() -> bytes:
        return PDF

    return await store.ledger.invoicing.files.put(merchant.merchant_id, uuid4(), uuid4(), XML, printed)


def link(store: Storefront, key: str, minutes: float = 15) -> str:
    assert store.ledger.invoicing
    return store.ledger.invoicing.files.sign_link(key, datetime.now(UTC) + timedelta(minutes=minutes))


async def test_a_link_serves_its_file_without_a_key(store: Storefront, stored: StoredFiles):
    for key, kind, content in ((stored.xml_key, "application/xml", XML), (stored.pdf_key, "application/pdf", PDF)):
        answer = await store.client.get(link(store, key))
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, content, kind)
        assert answer.headers["cache-control"] == "private, no-store"
        assert key.rpartition("/")[2] in answer.headers["content-disposition"]
        assert answer.headers["x-request-id"]
    assert (await store.client.head(link(store, stored.pdf_key))).headers["content-length"] == str(len(PDF))
    assert (await store.client.post(link(store, stored.pdf_key))).status_code == 405


async def test_a_link_that_expired_or_was_altered_is_404(store: Storefront, stored: StoredFiles):
    good = link(store, stored.xml_key)
    wrong = [
        link(store, stored.xml_key, minutes=-1),
        good.replace(".xml?", ".pdf?"),
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good.partition("?")[0],
        good + "&signature=x",
        good.partition("?")[0] + "?" + "a=1&" * 600,
        link(store, "../../../etc/passwd"),
        link(store, f"{uuid4()}/none.xml"),
    ]
    answers = [await store.client.get(each) for each in wrong]
    assert [answer.status_code for answer in answers] == [404] * len(wrong)
    assert len({answer.json()["message"] for answer in answers if "/etc/" not in str(answer.url)}) == 1


async def test_a_stored_file_that_is_missing_is_503_and_counted(store: Storefront, stored: StoredFiles):
    (store.settings.data_dir / "files" / stored.pdf_key).unlink()
    before = metric_value("ledger_files_missing_total")
    with capture_logs() as lines:
        answer = await store.client.get(link(store, stored.pdf_key))
    assert (answer.status_code, answer.json()["code"]) == (503, "FILE_MISSING")
    assert [(line["event"], line["key"]) for line in lines if line["event"] == "file_missing"] == [
        ("file_missing", stored.pdf_key)
    ]
    assert metric_value("ledger_files_missing_total") == before + 1


async def test_a_link_is_503_while_the_store_cannot_be_read(
    store: Storefront, stored: StoredFiles, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"REGION": "us-east-1", "ACCESS_KEY_ID": "A", "SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    away, read = DocumentFiles("s3://bucket/tax", b"k" * 32, "http://127.0.0.1:8000/api/files"), DocumentFiles.read
    monkeypatch.setattr(DocumentFiles, "read", lambda _, key: read(away, key))
    answer = await store.client.get(link(store, stored.xml_key))
    assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert "127.0.0.1" not in answer.json()["message"]
    assert answer.headers["retry-after"] == "1"
