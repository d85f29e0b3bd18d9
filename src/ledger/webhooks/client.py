"""Posts webhooks. The receivers are chosen by merchants: expect every kind of answer, and none."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp.http import HttpProcessingError
from yarl import URL

from ledger.domain.rejections import InvalidField
from ledger.tasks import Timeouts
from ledger.webhooks.addresses import Destinations
from ledger.webhooks.attempts import BODY_READ_MAX, Attempt, Outcome, kept_text, retry_after
from ledger.webhooks.connections import RECEIVED_MAX, Connections, Progress, ReceivedTooMuch, Target
from ledger.webhooks.resolver import LookUp, Resolver
from ledger.webhooks.signing import signed_headers
from ledger.webhooks.urls import FIELD, parse_url

TIMEOUT_S: Final = 15.0
_LOOK_UP_S: Final = 5.0
_FAILURES: Final = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)


class WebhookClient:
    """The connections of one process to the receivers of webhooks. They open with the first attempt.

    `look_up` resolves names; `tls` has the certificates that are trusted, without it those of the system.
    """

    def __init__(
        self, destinations: Destinations, *, look_up: LookUp = socket.getaddrinfo, tls: ssl.SSLContext | None = None
    ) -> None:
        self._destinations = destinations
        self._resolver = Resolver(look_up)
        self._tls = tls
        self._timeouts = Timeouts()
        self._connections: Connections | None = None

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.close()

    async def require_permitted(self, text: str) -> None:
        """Raises InvalidField for a URL to which no message may be sent, with `url` as the field.

        Every address of a name is checked. A name without one is accepted: it may get one later.
        """
        url = parse_url(text)
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                found = await self._resolver.resolve(url.raw_host or "", url.port or 0)
        except OSError:  # TimeoutError too
            return
        is_encrypted = url.scheme == "https"
        for address in (each["host"] for each in found):
            if not self._destinations.permits(address, is_encrypted=is_encrypted):
                raise InvalidField(FIELD, self._problem(url, address), "URL_NOT_ALLOWED")

    async def post(
        self, text: str, message_id: str, body: bytes, secrets: Sequence[str], *, timeout_s: float = TIMEOUT_S
    ) -> Attempt:
        """Posts a message once, within `timeout_s` and at most `LATE_MAX_S` more in all, and returns how it ended.

        A message may arrive twice: if a kept connection breaks, it is sent again on a new one.
        """
        at, began = datetime.now(UTC), time.monotonic()
        try:
            target = self._opened().target(text)
        except InvalidField as wrong:
            return Attempt(at=at, duration_ms=0, outcome=Outcome.NOT_ALLOWED, error=wrong.message)
        progress = Progress(target.url, [], bytearray())
        headers = signed_headers(message_id, body, secrets, at)
        try:
            with self._timeouts.within(timeout_s):
                outcome, error = await self._answer(progress, target, headers, body)
        except TimeoutError:
            outcome, error = Outcome.TIMED_OUT, _late(progress, timeout_s)
        return Attempt(
            at=at,
            duration_ms=round((time.monotonic() - began) * 1000),
            outcome=outcome,
            error=error,
            response_status=progress.status,
            response_body=kept_text(bytes(progress.body)),
            retry_after=None if outcome is Outcome.DELIVERED else retry_after(progress.retry_after, datetime.now(UTC)),
        )

    async def _answer(
        self, progress: Progress, target: Target, headers: dict[str, str], body: bytes
    ) -> tuple[Outcome, str | None]:
        try:
            while True:
                try:
                    is_whole = await self._opened().exchange(progress, target, headers, body)
                    break
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    # The receiver closed a connection that was kept open, perhaps before the message left.
                    if not progress.is_reused or progress.status is not None:
                        raise
        except _FAILURES as failure:
            return self._failed(progress, failure)
        return _judged(progress.status or 0, is_whole=is_whole)

    def _opened(self) -> Connections:
        if self._connections is None:
            self._connections = Connections(self._destinations, self._resolver, self._tls)
        return self._connections

    def _problem(self, url: URL, address: str) -> str:
        if self._destinations.permits(address, is_encrypted=True):
            return "must begin with https://: nothing is sent in the clear over the public internet"
        named = "is" if address == url.raw_host else f"leads to {address},"
        return f"{named} an address to which no messages may be sent: use one on the public internet"

    def _failed(self, progress: Progress, failure: Exception) -> tuple[Outcome, str]:
        """Returns what a failure means, in words for the merchant."""
        host = progress.url.raw_host
        if progress.refused and not progress.is_connected:
            return Outcome.NOT_ALLOWED, f"url {self._problem(progress.url, progress.refused[0])}."
        match failure:
            case ReceivedTooMuch():
                return Outcome.TOO_LONG, f"The receiver sent more than {RECEIVED_MAX} bytes, and no answer that ends."
            case aiohttp.ClientConnectorDNSError():
                return (
                    Outcome.UNRESOLVED,
                    f"The name {host} has no address: check the endpoint's url and your DNS records.",
                )
            case aiohttp.ClientConnectorCertificateError():
                reason = getattr(failure.certificate_error, "verify_message", "it cannot be verified")
                return Outcome.TLS, f"The certificate of {host} is not valid: {reason}."
            case aiohttp.ClientConnectorSSLError():
                reason = getattr(failure.os_error, "reason", None) or "the receiver speaks none"
                return Outcome.TLS, f"No TLS connection with {host}: {reason}."
            case aiohttp.ClientConnectorError():
                return Outcome.UNREACHABLE, f"No connection to {host}: {failure.os_error.strerror or 'it was refused'}."
            case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() if progress.status is None:
                return Outcome.UNREADABLE, "The receiver closed the connection without an answer."
            case aiohttp.InvalidURL():
                return Outcome.NOT_ALLOWED, f"The endpoint's url cannot be used: {failure.description or host}."
            case _ if progress.status is not None:
                return Outcome.UNREADABLE, f"The receiver answered {progress.status}, and its answer broke off."
            case _:
                return Outcome.UNREADABLE, "The receiver's answer is not HTTP."


def _judged(status: int, *, is_whole: bool) -> tuple[Outcome, str | None]:
    """Returns what an answer means."""
    if not is_whole:
        return Outcome.TOO_LONG, (
            f"The receiver answered {status} with more than {BODY_READ_MAX} bytes: answer with a short body, or none."
        )
    if 200 <= status < 300:
        return Outcome.DELIVERED, None
    if 300 <= status < 400:
        return Outcome.REDIRECT, (
            f"The receiver answered {status}, a redirect, which is not followed: give the endpoint the url that answers."
        )
    return (
        Outcome.STATUS,
        f"The receiver answered {status}{_phrase(status)}: only a status from 200 to 299 is a success.",
    )


def _phrase(status: int) -> str:
    return f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""


def _late(progress: Progress, timeout_s: float) -> str:
    """Returns for what the time was not enough."""
    if progress.status is not None:
        return f"The receiver answered {progress.status}, but did not end its answer within {timeout_s:g} s."
    if progress.is_connected:
        return f"The receiver did not answer within {timeout_s:g} s."
    return f"No connection to {progress.url.raw_host} within {timeout_s:g} s."
