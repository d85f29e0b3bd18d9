"""The URLs that a merchant may give an endpoint.

Parsers disagree about odd URLs, and what one of them checks another would connect to. So the text is restricted to what
all of them read alike, and the same parser, that of the HTTP client, reads it for the check and for the connection.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from yarl import URL

from ledger.domain.rejections import InvalidField

FIELD: Final = "url"
LENGTH_MAX: Final = 2_048
_SCHEMES: Final = frozenset({"https", "http"})
_NAME: Final = re.compile(
    r"(?=.{1,253}\.?\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?"
)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label with which resolvers take the whole host for an IPv4 address: 2130706433, 0177.0.0.1, 127.1."""


def parse_url(text: str) -> URL:
    """Returns the URL of an endpoint. Raises InvalidField.

    Whether its address is permitted is another question: `client.WebhookClient.require_permitted`.
    """
    if len(text) > LENGTH_MAX:
        raise _wrong(f"must have at most {LENGTH_MAX} characters, and has {len(text)}", "INVALID_LENGTH")
    if not text.isprintable() or " " in text or "\\" in text:
        raise _wrong("must have no spaces, backslashes or control characters: write them as %20 and the like")
    try:
        url = URL(text)
    except ValueError:
        raise _wrong(
            "must be an address like https://shop.example.com/webhooks, with a port up to 65535 if it names one"
        ) from None
    if not url.scheme:
        raise _wrong("must be absolute, like https://shop.example.com/webhooks")
    if url.scheme not in _SCHEMES:
        raise _wrong(f"must begin with https://, not with {url.scheme}:")
    if "#" in text:
        raise _wrong("must have no fragment: a request cannot carry what follows #")
    if "@" in re.split(r"[/?]", text.partition("//")[2], maxsplit=1)[0]:
        raise _wrong("must have no user or password: messages are signed instead")
    _require_host(url, text)
    return url


def _require_host(url: URL, text: str) -> None:
    host = url.raw_host
    if not host or url.port == 0:
        raise _wrong("must name a host, and a port from 1 to 65535 if it names one")
    if not re.split(r"[/?]", text.partition("//")[2], maxsplit=1)[0].isascii():
        raise _wrong("must write its host in ASCII: a name with other letters in its form that begins with xn--")
    if ":" in host:
        if "%" in host:
            raise _wrong("must have no zone in an IPv6 address")
        return
    if not _NAME.fullmatch(host):
        raise _wrong("must name a host of letters, digits, hyphens and dots")
    if _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) and not _is_ipv4(host):
        raise _wrong("must write an IPv4 address as four decimal numbers, like 203.0.113.7")


def _is_ipv4(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _wrong(problem: str, kind: str = "INVALID_FORMAT") -> InvalidField:
    return InvalidField(FIELD, problem, kind)
