"""An archive of write-ahead log in an object store: the segments by their names, each written once."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import Any, Final

from ledger.settings import CannotRun

SCHEME: Final = "s3://"
_REQUEST_MAX: Final = timedelta(seconds=60)
"""How long a request may take: a segment has 16 MB."""
_CONNECT_MAX: Final = timedelta(seconds=5)
_RETRIES: Final[Any] = {
    "max_retries": 2,
    "retry_timeout": timedelta(seconds=10),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}
"""Few, because Postgres repeats every segment until it is archived."""
_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>")
_NO_BUCKET: Final = "NoSuchBucket"


class ArchiveFailed(CannotRun):
    """The archive did not take or give a segment. The message has the store's code, and nothing else of its answer."""


class WalStore:
    """The archive at `url`, `s3://bucket/prefix`, with AWS's own variables for region, endpoint and credentials."""

    def __init__(self, url: str) -> None:
        from obstore.store import from_url

        self._url = url
        # Options of the client that are given replace those of the environment.
        allow_http = os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
        client: Any = {"timeout": _REQUEST_MAX, "connect_timeout": _CONNECT_MAX, "allow_http": allow_http}
        self._store: Any = from_url(url, client_options=client, retry_config=_RETRIES)

    def put(self, name: str, content: bytes) -> None:
        """Stores a segment once. One that is stored already must be the same. Raises ArchiveFailed."""
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store.put(name, content, mode="create")
        except AlreadyExistsError:
            if self.get(name) != content:
                raise ArchiveFailed(
                    f"LEDGER_WAL_ARCHIVE {self._url} has another segment {name}: give each server a prefix of its own"
                ) from None
        except Exception as fault:  # noqa: BLE001 - the store has an exception for each kind of failure
            raise self._failed(fault) from None

    def get(self, name: str) -> bytes | None:
        """Returns a segment, None if the archive has none of that name. Raises ArchiveFailed."""
        try:
            return bytes(self._store.get(name).bytes())
        except FileNotFoundError as missing:
            if _code_of(missing) == _NO_BUCKET:
                raise self._failed(missing) from None
            return None
        except Exception as fault:  # noqa: BLE001 - the same
            raise self._failed(fault) from None

    def _failed(self, fault: Exception) -> ArchiveFailed:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        code = _code_of(fault)
        if code == _NO_BUCKET:
            remedy = "make the bucket"
        elif isinstance(fault, PermissionDeniedError | UnauthenticatedError):
            remedy = (
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and that they may get and put objects of the bucket"
            )
        else:
            remedy = "check that it runs, AWS_ENDPOINT_URL, AWS_REGION, and AWS_ALLOW_HTTP for an address without TLS"
        return ArchiveFailed(f"LEDGER_WAL_ARCHIVE {self._url} failed ({code or type(fault).__name__}): {remedy}")


def is_store(archive: str) -> bool:
    """Returns whether a value of LEDGER_WAL_ARCHIVE names an object store rather than a folder."""
    return archive.startswith(SCHEME)


def _code_of(fault: Exception) -> str:
    """Returns the code of the store's answer, empty if there is none."""
    found = _CODE.search(str(fault))
    return "" if found is None else found[1]
