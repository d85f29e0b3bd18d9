"""The files of documents in an object store: written once, and every failure of the store a fault with what to do."""

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from tests.invoicing.s3_server import BUCKET, SECRET, s3
from tests.metric_values import metric_value
from tests.service.trees import environment

from ledger import write_once_store
from ledger.doctor import examine
from ledger.invoicing.files import DocumentFiles, FileConflict, FilesUnavailable

__all__ = ["s3"]

pytestmark = pytest.mark.anyio

BASE = "http://127.0.0.1:8000/api/files"
OWN_SERVER = pytest.mark.skipif("LEDGER_TEST_S3" in os.environ, reason="another server cannot be disturbed")


def opened(url=f"s3://{BUCKET}/tax/papers"):
    return DocumentFiles(url, b"k" * 32, BASE)


async def stored(files, xml=b"<xml/>", pdf=b"%PDF", document=None):
    async def printed():
        return pdf

    return await files.put(*(document or (uuid4(), uuid4(), uuid4())), xml, printed)


async def test_a_document_is_stored_once_with_its_hash_and_read_by_its_link(s3):
    files, document = opened(), (uuid4(), uuid4(), uuid4())
    first = await stored(files, document=document)
    assert first.sha256 == sha256(b"<xml/>").hexdigest()
    assert await stored(opened(), pdf=b"%PDF printed again", document=document) == first
    with pytest.raises(FileConflict):
        await stored(files, xml=b"<changed/>", document=document)
    assert [await files.read(key) for key in (first.xml_key, first.pdf_key)] == [b"<xml/>", b"%PDF"]
    assert await files.read("none.xml") is None
    now = datetime.now(UTC)
    link = urlsplit(files.sign_link(first.xml_key, now + timedelta(minutes=15)))
    key, query = unquote(link.path.removeprefix("/api/files/")), dict(parse_qsl(link.query))
    assert files.verify(key, query, now)
    assert await files.read(key) == b"<xml/>"
    assert not files.verify(key, query, now + timedelta(minutes=15))


async def test_of_several_that_store_a_document_at_once_one_succeeds(s3):
    document = uuid4(), uuid4(), uuid4()
    writers = [stored(opened(), xml=b"<xml n='%d'/>" % n, document=document) for n in range(8)]
    results = await asyncio.gather(*writers, return_exceptions=True)
    (kept,) = (result for result in results if not isinstance(result, Exception))
    assert [type(result) for result in results].count(FileConflict) == 7
    assert sha256(await opened().read(kept.xml_key)).hexdigest() == kept.sha256


@OWN_SERVER
@pytest.mark.parametrize("disturbance", [None, 503])
async def test_a_store_that_loses_an_answer_or_is_busy_is_asked_again(s3, disturbance):
    s3.disturbances = [disturbance]
    kept = await stored(opened())
    assert s3.buckets[BUCKET][f"tax/papers/{kept.xml_key}"] == b"<xml/>"
    assert s3.buckets[BUCKET][f"tax/papers/{kept.pdf_key}"] == b"%PDF"


def closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("bucket", "changes", "text"),
    [
        ("other", {}, "(NoSuchBucket): make the bucket, or correct LEDGER_FILES_URL"),
        (BUCKET, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "(SignatureDoesNotMatch): check AWS_ACCESS_KEY_ID"),
        (BUCKET, {"AWS_ACCESS_KEY_ID": "AKIANONE"}, "(InvalidAccessKeyId): check AWS_ACCESS_KEY_ID"),
        (BUCKET, {"AWS_ALLOW_HTTP": "false"}, "set AWS_ALLOW_HTTP=true"),
        (BUCKET, {"AWS_ENDPOINT_URL": "closed"}, "check that it runs, and AWS_ENDPOINT_URL and AWS_REGION"),
    ],
)
async def test_a_store_that_fails_is_a_fault_that_names_what_to_do(s3, monkeypatch, bucket, changes, text):
    for name, value in changes.items():
        monkeypatch.setenv(name, value if value != "closed" else f"http://127.0.0.1:{closed_port()}")
    files = opened(f"s3://{bucket}/tax")
    for asked in (stored(files), files.read("a.xml")):
        with pytest.raises(FilesUnavailable) as fault:
            await asked
        assert text in str(fault.value)
        assert SECRET not in str(fault.value)


@OWN_SERVER
async def test_a_silent_store_is_asked_by_one_request_at_a_time(s3, monkeypatch):
    for name, value in {"_REQUEST_MAX": timedelta(seconds=0.5), "_RETRIES": {"max_retries": 0}}.items():
        monkeypatch.setattr(write_once_store, name, value)
    files = opened()
    kept = await stored(files)
    asked, counted = len(s3.requests), metric_value("ledger_store_failures_total", "files")
    s3.answers.clear()
    with capture_logs() as lines:
        results = await asyncio.gather(*(files.read(kept.xml_key) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in results] == [FilesUnavailable] * 4
        assert len(s3.requests) == asked + 4, "nothing was known before"
        for _ in range(3):
            with pytest.raises(FilesUnavailable, match="does not answer: check that it runs"):
                await files.read(kept.xml_key)
        with pytest.raises(FilesUnavailable, match="does not answer"):
            files.require_answering()
        assert len(s3.requests) == asked + 4
        files._store._asked_again_at_s = 0.0  # the pause is over
        files.require_answering()
        results = await asyncio.gather(*(files.read(kept.xml_key) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in results] == [FilesUnavailable] * 4
        assert len(s3.requests) == asked + 5, "one finds out, and the others do not wait for it"
        assert metric_value("ledger_store_failures_total", "files") == counted + 5
        s3.answers.set()
        files._store._asked_again_at_s = 0.0
        assert await files.read(kept.xml_key) == b"<xml/>"
        assert await asyncio.gather(*(files.read(kept.pdf_key) for _ in range(4))) == [b"%PDF"] * 4
    changes = [(line["event"], line["files"]) for line in lines if line["event"].startswith("store_")]
    assert changes == [("store_silent", "files"), ("store_answers", "files")]


def test_the_doctor_reads_from_the_store(s3, tmp_path):
    environ = {"LEDGER_DATA_DIR": str(tmp_path), "LEDGER_FILES_URL": f"s3://{BUCKET}/tax"}
    findings = {each.check: (each.state, each.text) for each in examine(environ)}
    assert findings["files"] == ("ok", f"s3://{BUCKET}/tax answers")
    missing = {each.check: each for each in examine(environ | {"LEDGER_FILES_URL": "s3://other"})}["files"]
    assert (missing.state, "NoSuchBucket" in missing.text) == ("fail", True)


_IN_VAIN = """
import asyncio, socket, sys
from datetime import timedelta
from ledger import write_once_store
from ledger.cli import main
from ledger.invoicing.files import FilesUnavailable
from ledger.settings import CannotRun

def ask():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_once_store._REQUEST_MAX, write_once_store._RETRIES = timedelta(seconds=0.1), {"max_retries": 0}
        main.os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = write_once_store.WriteOnceStore("s3://b/x", fault=FilesUnavailable, files="files", variable="V")
        try:
            asyncio.run(read(store))
        except FilesUnavailable:
            print("asked in vain")
            raise CannotRun("the store is silent") from None

async def read(store):
    await store.read("k")

main.app = ask
main.main()
"""


def test_a_command_that_asks_a_silent_store_ends_as_any_other(s3):
    """It aborted in one of three runs."""
    program = [sys.executable, "-c", _IN_VAIN]
    for _ in range(4):
        runs = [subprocess.Popen(program, env=environment(), stdout=-1, stderr=-1, text=True) for _ in range(4)]
        for run in runs:
            output, errors = run.communicate(timeout=60)
            assert (run.returncode, output.endswith("asked in vain\n")) == (1, True), errors
            assert errors.endswith("ledger: the store is silent\n")
