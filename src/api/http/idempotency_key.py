"""The header Idempotency-Key, and the fingerprint of the request that came with it (contract N30, section 8.14).

Keep only a keyed hash of the request without the CVC. A plain hash of a body with a card number can be guessed, and a
CVC may not be kept in any form.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

import msgspec
from msgspec import Raw

from api.decoding.bodies import BAD_INPUT_AS_400
from api.decoding.stored_text import check_card_data
from api.errors import invalid
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.processors.cvc_detection import is_cvc
from ledger.slices import Slices

_KEY_MAX: Final = 255
_SECRETS: Final = frozenset({"cvc", "cvv"})
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def idempotency_key(header: bytes, pepper: bytes, method: str, path: str, body: bytes) -> IdempotencyKey:
    """Returns the key of a request and the request's fingerprint under `pepper`.

    The order of a body's members and the space between them make no difference. Raises ApiError (400) for a key that is
    empty, longer than 255 characters or not printable ASCII, or that holds a card number or a security code: the
    log keeps the key for ever.
    """
    key = _checked(header)
    with BAD_INPUT_AS_400:  # a member that is ignored may still hold a number that Python cannot represent
        content = _encode([method, path, _without_secrets(msgspec.json.decode(body))])
    return IdempotencyKey(key, hmac.digest(pepper, content, "sha256").hex())


async def idempotency_key_of_many(
    header: bytes, pepper: bytes, method: str, path: str, body: bytes, entries: str, entry_max: int, slices: Slices
) -> IdempotencyKey:
    """Returns what `idempotency_key` returns, for an object whose member `entries` is a long list: other requests are
    served between two entries.

    Of an entry longer than `entry_max` bytes, which is refused by its length, that alone counts: reading it would hold
    up the others.
    """
    key = _checked(header)
    content = hmac.new(pepper, _encode([method, path])[:-1] + b",{", "sha256")
    async with slices.work() as work:
        with BAD_INPUT_AS_400:
            members = msgspec.json.decode(body, type=dict[str, Raw])
            many = msgspec.json.decode(members.pop(entries), type=list[Raw])
            others = _without_secrets({name: msgspec.json.decode(value) for name, value in members.items()})
        separator = b""
        for name in sorted([*others, entries]):
            content.update(separator + _encode(name) + b":")
            separator = b","
            if name != entries:
                content.update(_encode(others[name]))
                continue
            content.update(b"[")
            for at, entry in enumerate(many):
                await work.end_piece()
                length = len(bytes(entry))
                with BAD_INPUT_AS_400:
                    read = length if length > entry_max else _without_secrets(msgspec.json.decode(entry))
                    piece = _encode(read)
                content.update(b"," + piece if at else piece)
            content.update(b"]")
    content.update(b"}]")
    return IdempotencyKey(key, content.hexdigest())


def _checked(header: bytes) -> str:
    """Returns the key in a header. Raises ApiError (400)."""
    key = header.decode("latin-1")
    if not (0 < len(key) <= _KEY_MAX and key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must have 1 to {_KEY_MAX} printable ASCII characters", "INVALID_FORMAT")
    check_card_data(key, "Idempotency-Key")
    return key


def _without_secrets(content: Any) -> Any:
    if isinstance(content, dict):
        return {
            name: _without_secrets(value)
            for name, value in content.items()
            if name.lower() not in _SECRETS and not is_cvc(name, value)
        }
    if isinstance(content, list):
        return [_without_secrets(value) for value in content]
    return content
