"""One HTTP request to a stamping provider, blocking: its deadline, its size, and what its failure means.

satcfdi's own requests have no time-out and follow redirects; theirs are replaced by these. Raise `ProviderUnavailable`
only if the provider cannot have read the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import requests
from msgspec import Struct
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from ledger.invoicing.contract import ProviderTimedOut, ProviderUnavailable

_ANSWER_MAX: Final = 8 << 20
_CONNECT_S: Final = 10.0
_PIECE: Final = 64 << 10
_TURNED_AWAY: Final = frozenset({401, 403, 429})
"""The statuses of a request that was turned away before its document was read: wrong credentials, too many requests."""


class Answer(Struct, frozen=True):
    """An answer with a status below 500."""

    status: int
    body: bytes


class Transport:
    """The requests of one call, which end at `deadline_at` (real time)."""

    def __init__(self, deadline_at: datetime) -> None:
        self._deadline_at = deadline_at

    def post(self, url: str, *, headers: Mapping[str, str], data: Any = None, files: Any = None) -> Answer:
        """Sends a request and returns the answer. Raises ProviderUnavailable and ProviderTimedOut."""
        left_s = self._left_s()
        if left_s <= 0:
            raise ProviderUnavailable("the deadline passed before the call was sent")
        try:
            with requests.post(
                url,
                headers=dict(headers),
                data=data,
                files=files,
                timeout=(min(_CONNECT_S, left_s), left_s),
                stream=True,
                allow_redirects=False,
            ) as response:
                body = self._body(response)
        except requests.RequestException as failure:
            if _was_never_sent(failure):
                raise ProviderUnavailable(f"the provider cannot be reached: {type(failure).__name__}") from None
            raise ProviderTimedOut(f"the provider did not answer: {type(failure).__name__}") from None
        if response.status_code in _TURNED_AWAY:
            raise ProviderUnavailable(f"the provider turned the request away with status {response.status_code}")
        if response.status_code >= 500 or 300 <= response.status_code < 400:
            raise ProviderTimedOut(f"the provider answered with status {response.status_code}")
        return Answer(response.status_code, body)

    def _body(self, response: requests.Response) -> bytes:
        """Returns the body of an answer, whose pieces may each arrive just before a socket's time-out."""
        pieces, size = [], 0
        for piece in response.iter_content(_PIECE):
            size += len(piece)
            if size > _ANSWER_MAX:
                raise ProviderTimedOut("the provider's answer is too large")
            if self._left_s() <= 0:
                raise ProviderTimedOut("no answer before the deadline")
            pieces.append(piece)
        return b"".join(pieces)

    def _left_s(self) -> float:
        return (self._deadline_at - datetime.now(UTC)).total_seconds()


def _was_never_sent(failure: requests.RequestException) -> bool:
    """Returns whether the connection, or its encryption, was never established."""
    if isinstance(failure, requests.ConnectTimeout):
        return True
    cause = failure.args[0] if failure.args else None
    if isinstance(cause, MaxRetryError):
        cause = cause.reason
    if isinstance(cause, NewConnectionError | ConnectTimeoutError):
        return True
    return isinstance(failure, requests.exceptions.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(cause)
