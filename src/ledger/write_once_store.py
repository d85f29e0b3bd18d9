"""A folder or an object store of S3 in which each file is written once.

A fault has advice and never the text of the store, which names paths and may hold parts of an answer.

A store that accepts connections and answers nothing costs each request its whole time. After one such request, the
store is asked again by one request at a time, after a pause; all others fail at once.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from ledger.back_off import back_off_s
from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import STORE_FAILURES

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_log = structlog.get_logger()

_REQUEST_MAX: Final = timedelta(seconds=10)
_RETRIES: Final[Any] = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}
"""How long the object store may take for a request, and how often a request is repeated.

The caller repeats what failed later.
"""
_SILENT_FIRST_S, _SILENT_MAX_S = 5.0, 30.0
"""How long a store is not asked after a request without an answer: doubled each time."""
_GAP_MAX: Final = 1 << 20
"""How many bytes between two parts of a file are read with them: another request takes longer."""
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_NO_BUCKET: Final = "NoSuchBucket"
_AWAY: Final = "check that it runs, and AWS_ENDPOINT_URL and AWS_REGION"
_MACHINE_CREDENTIALS: Final = "169.254.169.254"
"""The host from which a machine of AWS gets its credentials if the environment has none."""


class WriteOnceStore:
    """The files below `url`: `s3://bucket/prefix` with AWS's own variables for its credentials, or `file:///folder`.

    Faults are of the class `fault`, about the store of `files`, which `variable` names.
    """

    def __init__(self, url: str, *, fault: type[Fault], files: str, variable: str) -> None:
        self._url, self._fault, self._files, self._variable = url, fault, files, variable
        self._folder = Path(url.removeprefix("file://")) if url.startswith("file://") else None
        self._opened: ObjectStore | None = None
        self._unanswered = 0  # requests one after another
        self._asked_again_at_s = 0.0

    @property
    def is_silent(self) -> bool:
        """Whether the store has left a request unanswered and is not to be asked yet."""
        return time.monotonic() < self._asked_again_at_s

    def require_answering(self) -> None:
        """Raises the fault while the store is silent."""
        if self.is_silent:
            raise self._fault(f"the store of {self._files} does not answer: {_AWAY}")

    async def create(self, key: str, content: bytes) -> bool:
        """Stores a file. Returns False if one is stored under its key. Raises the fault."""
        from obstore.exceptions import AlreadyExistsError

        with self._asking():
            try:
                await self._store().put_async(key, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    async def replace(self, key: str, content: bytes) -> None:
        """Stores a file in the place of one that may be damaged, and of no other bytes. Raises the fault."""
        with self._asking():
            await self._store().put_async(key, content, use_multipart=False)

    async def read(self, key: str) -> bytes | None:
        """Returns a file, None if there is none. Raises the fault."""
        with self._asking():
            try:
                return bytes(await (await self._store().get_async(key)).bytes_async())
            except (FileNotFoundError, ValueError) as missing:
                if _code_of(missing) == _NO_BUCKET:
                    raise
                return None

    def read_parts(self, key: str, parts: Sequence[tuple[int, int]]) -> list[bytes] | None:
        """Returns parts of a file, each of an offset and a length; None if there is no file. A part is shorter where
        the file ends before it. Blocks: call it in a thread. Raises the fault.
        """
        spans = _spans_of(parts)
        starts = [start for start, _ in spans]
        try:
            read = [self._span(key, start, end) for start, end in spans]
        except (FileNotFoundError, ValueError) as missing:
            if _code_of(missing) == _NO_BUCKET:
                raise self._unavailable(missing) from None
            return None
        except Exception as fault:  # noqa: BLE001 - each kind of store raises its own
            raise self._unavailable(fault) from None
        found = []
        for start, length in parts:
            n = bisect_right(starts, start) - 1
            found.append(read[n][start - starts[n] : start - starts[n] + length])
        return found

    def _span(self, key: str, start: int, end: int) -> bytes:
        """Returns a file from one offset to before another, or to its end."""
        try:
            return bytes(self._store().get_range(key, start=start, end=end))
        except Exception as fault:
            if _is_behind_end(fault):
                return b""
            raise

    async def list(self, prefix: str) -> tuple[list[str], list[str]]:
        """Returns the folders and the files directly below a prefix, which is empty or ends in a slash. Raises the
        fault.
        """
        with self._asking():
            found = await self._store().list_with_delimiter_async(prefix or None)
        return list(found["common_prefixes"]), [each["path"] for each in found["objects"]]

    @property
    def is_folder(self) -> bool:
        return self._folder is not None

    async def remove(self, keys: Sequence[str]) -> None:
        """Removes files. Raises the fault."""
        with self._asking():
            await self._store().delete_async(keys)

    async def flush(self, keys: Sequence[str]) -> None:
        """Makes files durable, and the names by which they are found. An object store's are durable already.

        Raises the fault.
        """
        if self._folder is not None:
            try:
                await asyncio.to_thread(_flush, self._folder, keys)
            except OSError as fault:
                raise self._unavailable(fault) from None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Asks the store in its block, unless it is silent, and raises what the block does as the fault."""
        self.require_answering()
        unanswered = self._unanswered
        if unanswered:  # this one finds out whether the store answers again, and the others fail meanwhile
            self._asked_again_at_s = time.monotonic() + _REQUEST_MAX.total_seconds()
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - each kind of store raises its own
            if _is_silence(fault) and unanswered == self._unanswered:  # not one that began before the silence was known
                self._note_silence()
            raise self._unavailable(fault) from None
        self._note_answer()

    def _note_silence(self) -> None:
        if not self._unanswered:
            _log.error("store_silent", files=self._files, advice=_AWAY)
        self._asked_again_at_s = time.monotonic() + back_off_s(self._unanswered, _SILENT_MAX_S, _SILENT_FIRST_S)
        self._unanswered += 1

    def _note_answer(self) -> None:
        if self._unanswered:
            _log.info("store_answers", files=self._files)
        self._unanswered, self._asked_again_at_s = 0, 0.0

    def _store(self) -> Any:
        """Returns the store. Opening it imports a library that a process without a file to store never needs."""
        if self._opened is None:
            from obstore.store import LocalStore, from_url

            if self._folder is None:
                # Options of the client that are given replace those of the environment.
                allow_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
                client: Any = {"timeout": _REQUEST_MAX, "connect_timeout": _REQUEST_MAX, "allow_http": allow_http}
                self._opened = from_url(self._url, client_options=client, retry_config=_RETRIES)
            else:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # electronic invoices name people
                self._opened = LocalStore(prefix=self._folder)
        return self._opened

    def _unavailable(self, fault: Exception) -> Fault:
        STORE_FAILURES.labels(self._files).inc()
        code = _code_of(fault) or type(fault).__name__
        return self._fault(f"the store of {self._files} failed ({code}): {self._remedy(fault, code)}")

    def _remedy(self, fault: Exception, code: str) -> str:
        from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

        if self._folder is not None or (isinstance(fault, OSError) and code != _NO_BUCKET):
            return f"check that the folder of the {self._files} can be written"
        if code == _NO_BUCKET:
            return f"make the bucket, or correct {self._variable}"
        if isinstance(fault, PermissionDeniedError | UnauthenticatedError):
            return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and that they may get, put and list objects of the bucket"
        if isinstance(fault, GenericError) and "BadScheme" in str(fault):
            return "AWS_ENDPOINT_URL is not HTTPS: set AWS_ALLOW_HTTP=true where that is safe"
        if isinstance(fault, GenericError) and _MACHINE_CREDENTIALS in str(fault):
            return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: this machine has no credentials of its own"
        return _AWAY


def _flush(folder: Path, keys: Sequence[str]) -> None:
    places = {folder / key for key in keys}
    parents = {parent for place in places for parent in place.parents if parent.is_relative_to(folder)}
    for place in places:
        _sync(place)
    for parent in parents:
        with suppress(OSError):  # a file system that cannot flush a directory
            _sync(parent)


def _sync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _spans_of(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the spans of a file that have these parts, in their order: neighbours are read at once.

    The library joins parts itself (`get_ranges`), and aborts where a file has become shorter.
    """
    spans: list[tuple[int, int]] = []
    for start, length in sorted(parts):
        if spans and start - spans[-1][1] <= _GAP_MAX:
            spans[-1] = spans[-1][0], max(spans[-1][1], start + length)
        else:
            spans.append((start, start + length))
    return spans


def _is_behind_end(fault: Exception) -> bool:
    """Returns whether a part begins behind the end of its file."""
    return _code_of(fault) == "InvalidRange" or "Requested range was invalid" in str(fault)


def _is_silence(fault: Exception) -> bool:
    """Returns whether a request had no answer in its time. The library has no class for that."""
    return "kind: Timeout" in str(fault)


def _code_of(fault: Exception) -> str:
    """Returns the code of an S3 store's answer, empty if there is none."""
    found = _CODE.search(str(fault))
    return "" if found is None else found[1]
