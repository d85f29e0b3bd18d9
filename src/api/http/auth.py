"""Authenticates a request: its API key, and the key's merchant (contract N72 to N74).

Take the merchant from the key, never from a header, a path or a body. The header only has to agree; an unknown merchant
in it is answered like another merchant's.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct

from api.errors import ApiError, required
from ledger.domain.merchants.settings import MerchantSettings
from ledger.security.api_keys import PREFIXES, Scope
from ledger.ttl_cache import ReadAheadCache
from projections.merchants import FoundKey

KEY_HEADER: Final = b"x-api-key"
MERCHANT_HEADER: Final = b"x-merchant-id"

_KEY_BYTES_MAX: Final = 200
_TTL_S: Final = 3.0
_CACHED_MAX: Final = 20_000


class Principal(Struct, frozen=True):
    """The merchant and the key of a request. No scopes allow everything; a rate limit of 0 means no limit.

    `zone` is the merchant's time zone; `per_minute` and `per_second` are the most requests that the key may make.
    """

    merchant_id: UUID
    key_id: UUID
    scopes: frozenset[str]
    expires_at: datetime | None
    zone: ZoneInfo
    settings: MerchantSettings
    per_minute: int
    per_second: int

    def may(self, scope: Scope) -> bool:
        """Returns whether the key was issued for this scope, or for all."""
        return not self.scopes or scope in self.scopes


class Authenticator:
    """Finds the principal of an API key, and caches it for three seconds, or until `forget` is called.

    A process calls `forget` when the database notifies it of a change. Only if the notification is lost does a
    revoked key work for three more seconds.

    `pepper` is the installation's key for hashing; `find` asks the read model for a hash; `environment` is `sandbox` or
    `production`. The limits hold for merchants that have none of their own. `now` is real time, `monotonic` a monotonic
    clock in seconds.
    """

    def __init__(
        self,
        find: Callable[[bytes], Awaitable[FoundKey | None]],
        pepper: bytes,
        environment: str,
        *,
        per_minute: int,
        per_second: int,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._pepper = pepper
        self._own_key = secrets.token_bytes(32)
        self._prefix = PREFIXES[environment].encode()
        self._other_prefixes = tuple(prefix.encode() for name, prefix in PREFIXES.items() if name != environment)
        self._limits = per_minute, per_second
        self._now = now
        self._cached = ReadAheadCache[bytes, Principal | None](_CACHED_MAX, _TTL_S, monotonic)
        self._uses: dict[UUID, datetime] = {}

    def forget(self, merchant_id: UUID | None = None) -> None:
        """Drops the keys of a merchant, because they or its settings have changed; without a merchant, all keys."""
        self._cached.drop_where(
            lambda principal: merchant_id is None or (principal is not None and principal.merchant_id == merchant_id)
        )

    async def write_uses(self, write: Callable[[Mapping[UUID, datetime]], Awaitable[None]]) -> None:
        """Has the uses written that were seen since the last time. What cannot be written is kept for the next time.

        A key counts as used when it is looked up, every three seconds while requests come with it: a request whose key
        is cached costs nothing.
        """
        uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            await write(uses)
        except BaseException:
            self._uses = uses | self._uses
            raise

    async def identify(
        self, headers: Mapping[bytes, bytes], scope: Scope | None, *, by_key_alone: bool = False
    ) -> Principal:
        """Returns the principal of a request's headers. Raises ApiError: 401 for the key, then 404 or 400 for the
        merchant.

        An operation `by_key_alone` needs no merchant header, whatever the merchant's settings. A header that is sent
        has to agree nevertheless. Raises a Fault if the read model cannot be asked.
        """
        secret = self._of_this_environment(headers.get(KEY_HEADER))

        def read() -> Awaitable[Principal | None]:
            return self._read(secret)

        # Only keyed hashes are compared, so the time that this takes reveals nothing about any key. The cache uses a
        # hash of this process's own, which takes a fifth of the time of the stored one.
        digest = blake2b(secret, digest_size=32, key=self._own_key).digest()
        principal = self._cached.known(digest, read) or await self._cached.get(digest, read)
        if principal is None:
            raise _unknown()
        if principal.expires_at is not None and principal.expires_at <= self._now():
            raise ApiError(401, "KEY_EXPIRED", "The API key has expired: use another key.")
        if scope is not None and not principal.may(scope):
            raise ApiError(
                401, "INSUFFICIENT_SCOPE", f"The API key was not issued for {scope}: use a key with this scope."
            )
        _check_merchant(headers.get(MERCHANT_HEADER), principal, by_key_alone=by_key_alone)
        return principal

    def _of_this_environment(self, secret: bytes | None) -> bytes:
        """Returns a key that was sent. Raises ApiError (401) if it is missing or can be no key of this environment."""
        if secret is None:
            raise ApiError(401, "INVALID_API_KEY", "The header x-api-key is missing: send the API key in it.")
        if secret.startswith(self._other_prefixes):
            raise ApiError(
                401, "KEY_ENVIRONMENT_MISMATCH", "The API key belongs to another environment: use a key of this one."
            )
        if not secret.startswith(self._prefix) or len(secret) > _KEY_BYTES_MAX:
            raise _unknown()
        return secret

    async def _read(self, secret: bytes) -> Principal | None:
        """Returns the principal of a key by the read model, or None for an unknown or revoked key."""
        found = await self._find(hmac.digest(self._pepper, secret, "sha256"))
        principal = None if found is None or found.revoked_at is not None else self._principal(found)
        if principal is not None and (principal.expires_at is None or principal.expires_at > self._now()):
            self._uses[principal.key_id] = self._now()
        return principal

    def _principal(self, found: FoundKey) -> Principal:
        settings = found.settings
        own = settings.requests_per_minute, settings.requests_per_second
        per_minute, per_second = (
            default if limit is None else limit for limit, default in zip(own, self._limits, strict=True)
        )
        return Principal(
            merchant_id=found.merchant_id,
            key_id=found.key_id,
            scopes=frozenset(found.scopes),
            expires_at=found.expires_at,
            zone=ZoneInfo(settings.time_zone),
            settings=settings,
            per_minute=per_minute,
            per_second=per_second,
        )


def _unknown() -> ApiError:
    return ApiError(401, "INVALID_API_KEY", "The API key is unknown or revoked: use another key.")


def _check_merchant(header: bytes | None, principal: Principal, *, by_key_alone: bool) -> None:
    if header is None:
        if principal.settings.require_merchant_header and not by_key_alone:
            raise required(MERCHANT_HEADER.decode())
    elif not hmac.compare_digest(header.strip().lower(), str(principal.merchant_id).encode()):
        raise ApiError(
            404, "MERCHANT_NOT_FOUND", "The merchant in x-merchant-id was not found: send the merchant of the API key."
        )
