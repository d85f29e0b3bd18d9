"""Whatever events hold, a reader gets it from their file as it was; from a file that was changed, that or nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from tests.archive.test_contents import filed, read

from ledger.journal.event_archive import EventArchive

JSON_TEXTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20), max_size=3).map(
    lambda value: str(value).replace("'", '"').encode("utf-8", "replace")
)
CONTENTS = st.lists(st.binary(max_size=60) | JSON_TEXTS, min_size=1, max_size=6)
EDITS = st.tuples(st.integers(min_value=0), st.binary(max_size=3), st.integers(min_value=0, max_value=200))


@given(CONTENTS, EDITS)
def test_a_content_is_read_as_it_was_or_not_at_all(contents: list[bytes], edit: tuple[int, bytes, int]) -> None:
    with TemporaryDirectory() as folder:
        archive = EventArchive(f"file://{folder}")
        key, written, references = filed(archive, tuple(contents))
        asyncio.run(archive.store.create(key, written))
        assert read(archive, references) == contents
        place, insertion, removed = edit
        place %= len(written)
        changed = written[:place] + insertion + written[place + removed :]
        (Path(folder) / key).write_bytes(changed)
        found = read(archive, references)
        assert all(each in (None, content) for each, content in zip(found, contents, strict=True))
