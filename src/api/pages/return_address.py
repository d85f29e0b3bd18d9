"""The merchant's address to which a payer goes on from a page of ours."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def with_id(address: str, name: str, about: object) -> str:
    """Returns a merchant's address with the id of what it is about in its query.

    The outcome is not in it: the merchant asks the ledger, and believes no address that a payer can write.
    """
    parts = urlsplit(address)
    query = "&".join([*filter(None, [parts.query]), f"{name}={about}"])
    return urlunsplit(parts._replace(query=query))
