"""Card payments at a processor, by the ledger's adapter of Stripe and by a bare client that sends the same requests.

Never tune the bare client: it is what `aiohttp` costs for these requests, with the same connections and bodies of the
same bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from benchmarks.load import order_body
from benchmarks.load.processes import Go, work
from benchmarks.load.stripe_answers import INTENTS, KEY, TOKEN
from benchmarks.measure.samples import Sample, sample
from ledger.domain.orders.processor_outcomes import Approved
from ledger.processors.contract import AuthorizationRequest, CardToken, TokenRequest
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import VERSION, Connections

By = Literal["adapter", "client"]

_AMOUNT: Final[int] = order_body.BODY["amount"]
_CURRENCY: Final[str] = order_body.BODY["currency"]
_TIMEOUT_S: Final = 30.0
_CONNECTIONS_MAX: Final = 1_000


class AuthorizationPlan(Struct, frozen=True, kw_only=True):
    """Authorisations at `url` for `seconds` after `warm_up_s`, so many at once, each after reading its token or not."""

    url: str
    by: By
    in_flight: int
    seconds: float
    reads_token: bool = False
    warm_up_s: float = 0.3


Authorize = Callable[[], Awaitable[None]]
"""Makes one authorisation. Raises if it is not approved."""


class ByAdapter:
    """Authorises as the service does, by `ledger.processors.stripe`."""

    def __init__(self, plan: AuthorizationPlan) -> None:
        self._connections = Connections(plan.url)
        self._processor = StripeProcessor(self._connections, KEY)
        self._merchant_id = uuid7()
        self._reads_token = plan.reads_token

    async def authorize(self) -> None:
        token = CardToken(token=TOKEN)
        deadline_at = datetime.now(UTC) + timedelta(seconds=_TIMEOUT_S)
        if self._reads_token:
            request = TokenRequest(merchant_id=self._merchant_id, token=token, deadline_at=deadline_at)
            assert await self._processor.read_token(request) is not None
        answer = await self._processor.authorize(
            AuthorizationRequest(
                merchant_id=self._merchant_id,
                idempotency_key=str(uuid7()),
                deadline_at=deadline_at,
                order_id=uuid7(),
                payment_id=uuid7(),
                amount=Decimal(_AMOUNT),
                currency=_CURRENCY,
                card=token,
                capture=True,
            )
        )
        assert isinstance(answer, Approved), answer

    async def close(self) -> None:
        await self._connections.close()


class ByClient:
    """Sends the same requests by `aiohttp` alone, and reads the answers as JSON."""

    def __init__(self, plan: AuthorizationPlan) -> None:
        self._url = plan.url
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS_MAX),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            headers={"Authorization": f"Bearer {KEY}", "Stripe-Version": VERSION},
        )
        self._merchant_id = uuid7()
        self._reads_token = plan.reads_token

    async def authorize(self) -> None:
        if self._reads_token:
            async with self._session.get(f"{self._url}/v1/payment_methods/{TOKEN}") as response:
                assert msgspec.json.decode(await response.read())["id"]
        key = str(uuid7())
        created = await self._post(INTENTS, creation(self._merchant_id, key, uuid7(), uuid7()), f"{key}:create")
        confirmed = await self._post(f"{INTENTS}/{created['id']}/confirm", CONFIRMATION, f"{key}:confirm")
        assert confirmed["status"] == "succeeded", confirmed

    async def _post(self, path: str, form: dict[str, str], step: str) -> Any:
        headers = {
            "Idempotency-Key": f"{self._merchant_id}:{step}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        async with self._session.post(self._url + path, data=urlencode(form).encode(), headers=headers) as response:
            return msgspec.json.decode(await response.read())

    async def close(self) -> None:
        await self._session.close()


CONFIRMATION: Final = {"payment_method": TOKEN, "off_session": "true", "expand[0]": "latest_charge"}


def creation(merchant_id: UUID, key: str, order_id: UUID, payment_id: UUID) -> dict[str, str]:
    """Returns the form by which the adapter creates an intent of the README's amount."""
    return {
        "payment_method_types[0]": "card",
        "metadata[ledger_merchant]": str(merchant_id),
        "metadata[ledger_key]": key,
        "metadata[ledger_order]": str(order_id),
        "metadata[ledger_payment]": str(payment_id),
        "metadata[ledger_capture]": key,
        "amount": str(_AMOUNT),
        "currency": _CURRENCY.lower(),
        "capture_method": "automatic",
    }


async def run(plan: AuthorizationPlan, go: Go) -> Sample:
    """Does what the plan describes."""
    caller = ByAdapter(plan) if plan.by == "adapter" else ByClient(plan)
    go()
    begins_at = time.perf_counter() + plan.warm_up_s
    ends_at = begins_at + plan.seconds
    latencies: list[float] = []
    others = Counter[str]()

    async def authorize_until_the_end() -> None:
        while (began := time.perf_counter()) < ends_at:
            try:
                await caller.authorize()
            except Exception as failure:  # noqa: BLE001 - every failure is counted, and makes the sample no result
                others[type(failure).__name__] += 1
                continue
            ended = time.perf_counter()
            next(walks)
            if begins_at <= ended <= ends_at:
                latencies.append(ended - began)

    walks = count()
    used = time.process_time()
    await asyncio.gather(*[authorize_until_the_end() for _ in range(plan.in_flight)])
    used = time.process_time() - used
    await caller.close()
    return replace(sample(latencies, plan.seconds, cpu_s=used, others=others), ended=next(walks))


if __name__ == "__main__":
    work(AuthorizationPlan, run)
