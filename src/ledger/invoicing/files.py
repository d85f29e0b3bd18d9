"""The stored files of stamped documents, XML and PDF, and signed links to them.

A file is written once: a stamped document never changes. A link carries its end and a keyed hash of itself, so that
this service can serve it without an API key, and without storing it.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import structlog
from msgspec import Struct

from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import FILES_MISSING
from ledger.write_once_store import WriteOnceStore

_log = structlog.get_logger()

FOLDER: Final = "files"
"""The folder of the files under the data directory, and the path under which their links begin."""

_FOLDER_ID: Final = "folder-id"
"""The file by which a shared folder differs from another one under the same path."""

LINK_VALIDITY_S: Final = 15 * 60
"""How long a link lives (contract N44)."""

_LABEL: Final = b"payment-ledger file link v1\0"
_LIFETIMES: Final = range(1, 1 << 40)
"""The ends that a link may have, in seconds since 1970."""


class FilesUnavailable(Fault):
    """The store of files is unreachable, or refuses. Its text has the store's code, and nothing else of its answer."""


class FileMissing(Fault):
    """The file of a stamped document is not in the store: it was lost, or another machine stored it in a folder."""


class FileConflict(Exception):
    """Another file is stored under the key. A stamped document never changes."""


class StoredFiles(Struct, frozen=True, kw_only=True):
    """Where the files of a document are, and the SHA-256 of its XML in hex."""

    xml_key: str
    pdf_key: str
    sha256: str


class DocumentFiles:
    """The files of stamped documents, in a folder or an object store.

    `url` names the store: `s3://bucket/prefix` with AWS's own variables for its credentials, or `file:///folder`. Links
    begin with `links_url` and are signed with `link_key`.
    """

    def __init__(self, url: str, link_key: bytes, links_url: str) -> None:
        self._link_key, self._links_url = link_key, links_url
        self._store = WriteOnceStore(url, fault=FilesUnavailable, files="files", variable="LEDGER_FILES_URL")

    @property
    def are_silent(self) -> bool:
        """Whether their store has left a request unanswered and is not to be asked yet."""
        return self._store.is_silent

    def require_answering(self) -> None:
        """Raises FilesUnavailable while the store is silent."""
        self._store.require_answering()

    async def put(
        self,
        merchant_id: UUID,
        document_id: UUID,
        fiscal_uuid: UUID,
        xml: bytes,
        printed: Callable[[], Awaitable[bytes]],
    ) -> StoredFiles:
        """Stores a stamped document, once. Repeated after a crash, it keeps the files that are there.

        `printed` returns the PDF. It is called once the XML is stored, and only if the PDF is not.

        Raises FileConflict if another XML is stored for the document, FilesUnavailable, and what `printed` raises.
        """
        name = f"{merchant_id}/{document_id}/{str(fiscal_uuid).upper()}"
        files = StoredFiles(xml_key=f"{name}.xml", pdf_key=f"{name}.pdf", sha256=sha256(xml).hexdigest())
        pdf = b""
        if not await self._store.create(files.xml_key, xml):
            kept = await self.read(files.xml_key)
            if kept != xml and not (self._store.is_folder and xml.startswith(_written(kept))):
                raise FileConflict(f"another XML than that of document {document_id} is stored as {files.xml_key}")
            await self._write_again(files.xml_key, xml)
            pdf = _written(await self.read(files.pdf_key))  # two printings of one XML may differ: the first one stays
        pdf = pdf or await printed()
        if not await self._store.create(files.pdf_key, pdf):
            await self._write_again(files.pdf_key, _written(await self.read(files.pdf_key)) or pdf)
        await self._store.flush([files.xml_key, files.pdf_key])  # an event refers to them from now on
        return files

    async def _write_again(self, key: str, content: bytes) -> None:
        """Writes a file of a folder again: it may be what a crash has left of it, or what the disk could not keep."""
        if self._store.is_folder:
            await self._store.replace(key, content)

    async def read(self, key: str) -> bytes | None:
        """Returns a file, None if there is none. Raises FilesUnavailable."""
        return await self._store.read(key)

    async def require(self, key: str) -> bytes:
        """Returns the file of a stamped document. Raises FileMissing, which is logged and counted, FilesUnavailable."""
        content = await self.read(key)
        if content is None:
            FILES_MISSING.inc()
            _log.error("file_missing", key=key)
            raise FileMissing(f"{key} is missing from the store of files")
        return content

    def sign_link(self, key: str, expires_at: datetime) -> str:
        """Returns the address of a file until `expires_at`, in real time. The whole second counts."""
        end = int(expires_at.timestamp())
        query = urlencode({"expires": end, "signature": self._signature(key, end)})
        return f"{self._links_url}/{quote(key)}?{query}"

    def verify(self, key: str, query: Mapping[str, str], at: datetime) -> bool:
        """Returns whether a link's query allows a read of this key at `at`: its signature is valid, and it has not
        expired.
        """
        end = query.get("expires", "")
        if not (end.isascii() and end.isdigit() and int(end[:20]) in _LIFETIMES):
            return False
        signature = query.get("signature", "").encode()
        signed = hmac.compare_digest(signature, self._signature(key, int(end)).encode())
        return signed and at.timestamp() < int(end)

    def _signature(self, key: str, end: int) -> str:
        return hmac.digest(self._link_key, _LABEL + f"{end}\0{key}".encode(), "sha256").hex()


def _written(kept: bytes | None) -> bytes:
    """Returns what is left of a file after a crash: some file systems fill what was not written with zeros."""
    return (kept or b"").rstrip(b"\0")


def folder_url(data_dir: Path) -> str:
    """Returns the store in a data directory: the default."""
    return f"file://{(data_dir / FOLDER).absolute()}"


def files_address(files_url: str, data_dir: Path) -> str:
    """Returns where files are stored: the address of the settings, or the folder in the data directory."""
    return files_url or folder_url(data_dir)


def files_place(url: str) -> str:
    """Returns where the files of a store are, the same on each machine that shares it: the address of an object store,
    or of a folder with an id that is written into it once (`file:///folder#id`).
    """
    if not url.startswith("file://"):
        return url
    folder = Path(url.removeprefix("file://"))
    place = folder / _FOLDER_ID
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.exists():
            # Written, then linked: processes that start at the same time read one id, and no empty file.
            written = folder / f"{_FOLDER_ID}-{uuid4().hex}"
            written.write_text(uuid4().hex)
            with suppress(FileExistsError):
                place.hardlink_to(written)
            written.unlink()
        return f"{url}#{place.read_text()}"
    except OSError:  # it cannot be shared either
        return f"{url}#{sha256(f'{socket.gethostname()}{folder}'.encode()).hexdigest()[:32]}"
