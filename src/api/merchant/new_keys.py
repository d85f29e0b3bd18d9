"""The rate of new API keys: a request that makes none does not count."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from ledger.domain.rejections import Rejected
from ledger.operations.merchants.api_keys import KeyResult


async def make_key(deps: Dependencies, request: ApiRequest, make: Callable[[], Awaitable[KeyResult]]) -> KeyResult:
    """Returns what `make` returns. Raises what it raises; TooManyRequests after too many keys of the merchant."""
    merchant_id = request.principal.merchant_id
    deps.limiter.admit_new_key(merchant_id)
    try:
        result = await make()
    except Rejected:  # after a fault, or if the client has hung up, the key may be made
        deps.limiter.return_new_key(merchant_id)
        raise
    if result.repeated:
        deps.limiter.return_new_key(merchant_id)
    return result
