"""API keys rotate while two processes are under load: no request fails, and a revoked key ends in both."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count

import httpx
import pytest
from tests.api.bodies import order
from tests.races.conftest import TwoProcesses

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CLIENTS, ROTATIONS = 6, 12
KEYS, ORDERS, META = "/api/v1/api-keys", "/api/v2/payment-orders", "/api/v1/meta"


class Load:
    """Clients that send requests to both processes with the key of the moment, until they are stopped."""

    def __init__(self, http: httpx.AsyncClient, ports: tuple[str, ...], key: str) -> None:
        self.http, self.ports, self.key = http, ports, key
        self.under_way: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.stopped = False
        self._numbers = count()

    async def run(self) -> None:
        while not self.stopped:
            number, key = next(self._numbers), self.key
            self.under_way[key] += 1
            url = f"{self.ports[number % 2]}{ORDERS}"
            if number % 3:
                answer = await self.http.get(f"{url}?limit=1", headers={"x-api-key": key})
            else:
                body = order(externalId=f"under-load-{number}")
                answer = await self.http.post(url, json=body, headers={"x-api-key": key})
            self.under_way[key] -= 1
            self.statuses[answer.status_code] += 1

    async def rotate(self, number: int) -> str:
        """Rotates the key, lets the requests with the old one end, and revokes it. Returns the old one."""
        old, url = self.key, f"{self.ports[number % 2]}{KEYS}"
        meta = await self.http.get(f"{self.ports[0]}{META}", headers={"x-api-key": old})
        old_id = meta.json()["apiKey"]["id"]
        rotated = await self.http.post(f"{url}/{old_id}/rotate", json={}, headers={"x-api-key": old})
        assert rotated.status_code == 201, rotated.text
        self.key = rotated.json()["secret"]
        while self.under_way[old]:  # noqa: ASYNC110 - requests end by themselves
            await asyncio.sleep(0.01)
        revoked = await self.http.delete(f"{url}/{old_id}", headers={"x-api-key": self.key})
        assert revoked.status_code == 200, revoked.text
        return old

    async def is_refused(self, key: str) -> bool:
        answers = [await self.http.get(f"{port}{META}", headers={"x-api-key": key}) for port in self.ports]
        return all(answer.status_code == 401 for answer in answers)


async def test_keys_rotate_under_load_without_a_failed_request(processes: TwoProcesses):
    ports = tuple(f"http://127.0.0.1:{port}" for port in processes.ports)
    async with httpx.AsyncClient(timeout=60) as http:
        load = Load(http, ports, processes.merchant.api_key)
        clients = [asyncio.create_task(load.run()) for _ in range(CLIENTS)]
        try:
            for number in range(ROTATIONS):
                served = load.statuses.total()
                old = await load.rotate(number)
                async with asyncio.timeout(60):
                    while not (load.statuses.total() >= served + 2 * CLIENTS and await load.is_refused(old)):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
        finally:
            load.stopped = True
            await asyncio.gather(*clients)
    assert set(load.statuses) == {200, 201}, load.statuses
    assert load.statuses.total() > ROTATIONS * CLIENTS
