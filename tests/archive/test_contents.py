"""The contents of archived events in a folder and in an object store: what was written, or nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from tests.invoicing.s3_server import BUCKET, S3Server, s3

from ledger.backup.event_archiving import _Event, _Log
from ledger.journal.event_archive import ArchiveUnavailable, EventArchive, Reference, file_id, file_key, reference_in

__all__ = ["s3"]

pytestmark = pytest.mark.anyio

MERCHANT = uuid4()
CONTENTS = (b'{"amount":1}', b'{"note":\n"two lines"}', b'"a text"', b"\0\1\2", b"", b'{"a":"\xc3\xa9"}', b"{broken")


def events_of(contents: tuple[bytes, ...]) -> list[_Event]:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return [
        _Event(uuid4(), 1, n, uuid4(), at, "order-created.v1", content, b"{}") for n, content in enumerate(contents, 1)
    ]


def filed(archive: EventArchive, contents: tuple[bytes, ...] = CONTENTS) -> tuple[str, bytes, list[Reference]]:
    """Returns the name and the bytes of a file with these contents, and the references to them."""
    log = _Log(cast("Any", None), archive, cast("Any", None), cast("Any", None), MERCHANT)
    content, references = log._file(events_of(contents))
    return file_key(MERCHANT.bytes, file_id(content)), content, references


def read(archive: EventArchive, references: list[Reference], merchant: UUID = MERCHANT) -> list[bytes | None]:
    stored = [(merchant.bytes, reference.encode()) for reference in references]
    found = archive.read(stored)
    return [found.get(each) for each in stored]


def test_a_reference_is_read_as_it_was_written() -> None:
    reference = Reference(b"f" * 16, 2**32 - 1, 7, b"h" * 32)
    assert reference_in(reference.encode()) == reference
    assert reference_in(b'{"amount":1}') is reference_in(b"") is reference_in(reference.encode()[:-1]) is None


async def test_any_bytes_are_read_as_they_were_written(tmp_path: Path) -> None:
    archive = EventArchive(f"file://{tmp_path}")
    key, content, references = filed(archive)
    assert content.count(b"\n") == len(CONTENTS)
    await archive.store.create(key, content)
    assert read(archive, references) == list(CONTENTS)
    assert read(archive, references, uuid4()) == [None] * len(CONTENTS), "another merchant's files are not looked into"
    (tmp_path / key).write_bytes(content[: references[2].offset])
    assert read(archive, references)[:4] == [*CONTENTS[:2], None, None], "what is left of it is read"


async def test_a_file_in_an_object_store(s3: S3Server) -> None:
    archive = EventArchive(f"s3://{BUCKET}/ledger")
    contents = tuple(b'{"n":%d,"text":"%s"}' % (n, b"x" * 300) for n in range(40))
    key, content, references = filed(archive, contents)
    await archive.store.create(key, content)
    place = f"ledger/{key}"
    assert read(archive, references[3:5]) == list(contents[3:5])
    assert read(archive, references[::7]) == list(contents[::7])
    if place in s3.buckets[BUCKET]:  # a server of our own can be damaged
        s3.buckets[BUCKET][place] = content.replace(b'"n":7,', b'"n":8,')
        assert read(archive, references[6:9]) == [contents[6], None, contents[8]]
        s3.buckets[BUCKET][place] = content[:700]
        assert not await archive.store.create(key, content)
        assert read(archive, references[30:31]) == [None]
        await archive.store.replace(key, content)
        assert s3.buckets[BUCKET][place] == content
        del s3.buckets[BUCKET][place]
        assert read(archive, references[:2]) == [None, None]
        del s3.buckets[BUCKET]
        with pytest.raises(ArchiveUnavailable, match="LEDGER_FILES_URL"):
            read(archive, references[:1])


async def test_a_store_that_does_not_answer_is_a_fault_of_the_event_alone(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = EventArchive(f"s3://{BUCKET}/ledger")
    key, content, references = filed(archive)
    await archive.store.create(key, content)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    stranger = EventArchive(f"s3://{BUCKET}/ledger")
    stored = [(MERCHANT.bytes, references[0].encode())]
    assert await stranger.contents(stored) == {}
    with pytest.raises(ArchiveUnavailable, match="check AWS_ACCESS_KEY_ID"):
        stranger.read(stored)
    assert await archive.contents(stored) == {stored[0]: CONTENTS[0]}
