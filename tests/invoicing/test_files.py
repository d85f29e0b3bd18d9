"""The stored files of documents: written once, readable by links that end."""

import os
import stat
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

import pytest

from ledger.invoicing.files import DocumentFiles, FileConflict, FilesUnavailable, folder_url

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)
BASE = "http://127.0.0.1:8000/api/files"


@pytest.fixture
def files(tmp_path):
    return DocumentFiles(folder_url(tmp_path), b"k" * 32, BASE)


async def stored(files, xml=b"<xml/>", pdf=b"%PDF", document=None):
    merchant, document, fiscal = document or (uuid4(), uuid4(), uuid4())

    async def printed():
        return pdf

    return await files.put(merchant, document, fiscal, xml, printed)


async def test_files_are_kept_with_the_hash_of_the_xml(files, tmp_path):
    kept = await stored(files)
    assert (await files.read(kept.xml_key), await files.read(kept.pdf_key)) == (b"<xml/>", b"%PDF")
    assert kept.sha256 == sha256(b"<xml/>").hexdigest()
    assert (tmp_path / "files" / kept.xml_key).read_bytes() == b"<xml/>"
    assert stat.S_IMODE((tmp_path / "files").stat().st_mode) == 0o700


async def test_a_file_is_written_once(files):
    document = uuid4(), uuid4(), uuid4()
    first = await stored(files, document=document)
    assert await stored(files, pdf=b"%PDF printed again", document=document) == first
    assert await files.read(first.pdf_key) == b"%PDF"
    with pytest.raises(FileConflict):
        await stored(files, xml=b"<changed/>", document=document)
    assert await files.read(first.xml_key) == b"<xml/>"


async def test_a_document_is_printed_once_its_xml_is_stored_and_not_again(files, tmp_path):
    document, times = (uuid4(), uuid4(), uuid4()), []

    async def printed():
        times.append(len([*tmp_path.rglob("*.xml")]))
        return b"%PDF"

    (tmp_path / "files").write_text("a file where the folder should be")
    with pytest.raises(FilesUnavailable):
        await files.put(*document, b"<xml/>", printed)
    assert times == []
    (tmp_path / "files").unlink()
    for _ in range(2):
        await files.put(*document, b"<xml/>", printed)
    assert times == [1]


async def test_a_crash_between_the_two_files_is_made_good_by_the_next_try(files, tmp_path):
    document = uuid4(), uuid4(), uuid4()
    kept = await stored(files, document=document)
    (tmp_path / "files" / kept.pdf_key).unlink()
    assert await stored(files, document=document) == kept
    assert await files.read(kept.pdf_key) == b"%PDF"


@pytest.mark.parametrize("left", [b"", b"<x", b"<x\0\0\0\0", b"\0\0\0\0\0\0"])
async def test_what_a_crash_has_left_of_the_files_is_written_again(files, tmp_path, left):
    document = uuid4(), uuid4(), uuid4()
    kept = await stored(files, document=document)
    (tmp_path / "files" / kept.xml_key).write_bytes(left)
    (tmp_path / "files" / kept.pdf_key).write_bytes(b"\0" * len(left))
    assert await stored(files, document=document) == kept
    assert (await files.read(kept.xml_key), await files.read(kept.pdf_key)) == (b"<xml/>", b"%PDF")


async def test_a_flush_that_fails_is_not_followed_by_one_of_the_same_file(files, tmp_path, monkeypatch):
    """A file system reports once that it could not write, and reads the file from memory as if it had."""
    document, sync = (uuid4(), uuid4(), uuid4()), os.fsync

    def broken(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(FilesUnavailable):
            await stored(files, document=document)
    lost = {path.name: path.stat().st_ino for path in tmp_path.rglob("*") if path.suffix in (".xml", ".pdf")}
    kept = await stored(files, document=document)
    for key in (kept.xml_key, kept.pdf_key):
        path = tmp_path / "files" / key
        assert path.stat().st_ino != lost[path.name]


@pytest.mark.parametrize("key", ["none.xml", "../../etc/passwd", "/etc/passwd", "a/../b", "a\0b"])
async def test_a_key_that_names_no_file_reads_as_none(files, key):
    await stored(files)
    assert await files.read(key) is None


async def test_a_store_that_fails_is_a_fault_without_its_details(tmp_path):
    (tmp_path / "files").write_text("a file where the folder should be")
    with pytest.raises(FilesUnavailable):
        await stored(DocumentFiles(folder_url(tmp_path), b"k" * 32, BASE))
    away = DocumentFiles("s3://bucket/prefix?x=1", b"k" * 32, BASE)
    away._opened = Broken()
    for asked in (away.read("a"), stored(away)):
        with pytest.raises(FilesUnavailable) as fault:
            await asked
        assert "secret" not in str(fault.value)


class Broken:
    async def get_async(self, _):
        raise RuntimeError("secret")

    async def put_async(self, *_, **__):
        raise RuntimeError("secret")


def taken_apart(link):
    parts = urlsplit(link)
    key = unquote(parts.path.removeprefix("/api/files/"))
    return key, dict(parse_qsl(parts.query))


async def test_a_link_is_valid_until_its_end(files):
    link = files.sign_link("m/d/U.xml", NOW + timedelta(minutes=15))
    assert link.startswith(f"{BASE}/m/d/U.xml?")
    key, query = taken_apart(link)
    assert files.verify(key, query, NOW)
    assert files.verify(key, query, NOW + timedelta(minutes=14, seconds=59))
    assert not files.verify(key, query, NOW + timedelta(minutes=15))


async def test_a_link_that_was_altered_is_worth_nothing(files, tmp_path):
    key, query = taken_apart(files.sign_link("m/d/U.xml", NOW + timedelta(minutes=15)))
    assert not files.verify("m/d/V.xml", query, NOW)
    later = str(int(query["expires"]) + 60)
    flipped = ("0" if query["signature"][0] != "0" else "1") + query["signature"][1:]
    for change in ({"expires": later}, {"signature": flipped}, {"signature": ""}, {"signature": "ñ"}):
        assert not files.verify(key, query | change, NOW)
    for end in ("", "-1", "1e9", "²", "9" * 400, "0"):
        assert not files.verify(key, query | {"expires": end}, NOW)
    assert not files.verify(key, {}, NOW)
    other = DocumentFiles(folder_url(tmp_path), b"j" * 32, BASE)
    assert not other.verify(key, query, NOW), "another installation's key signed it"
