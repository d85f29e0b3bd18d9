"""A store of files that accepts connections and answers nothing delays what needs it, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest
from campaigns.chaos.clients import Merchant
from campaigns.chaos.running import ROOT, Running, environ
from campaigns.chaos.service import Service
from tests.invoicing.s3_server import BUCKET, KEY_ID, SECRET
from tests.metric_values import value_in

pytestmark = pytest.mark.long

ORDERS: Final = "/api/v2/payment-orders"
FISCAL: Final = {
    "taxId": "URE180429TM6",
    "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
    "taxSystem": "601",
    "cfdiUse": "G03",
    "zipCode": "86991",
}
CARD: Final = {"number": "4242424242424242", "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"}
PATIENCE_S: Final = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Running]:
    program = [sys.executable, "-m", "tests.invoicing.s3_server"]
    with Running(program, environ({"PYTHONPATH": str(ROOT)}), tmp_path / "store.log") as running:
        yield running


def settings(address: str) -> dict[str, str]:
    return {
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "LEDGER_FILES_URL": f"s3://{BUCKET}/tax",
        "LEDGER_CHECKPOINTS_URL": f"s3://{BUCKET}/checkpoints",
        "LEDGER_SEAL_S": "1",
    }


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.2)


class _Client:
    def __init__(self, service: Service, merchant: Merchant) -> None:
        self._key = {"x-api-key": merchant.api_key}
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{service.port}", timeout=PATIENCE_S)

    def get(self, path: str) -> httpx.Response:
        return self._http.get(path, headers=self._key)

    def post(self, path: str, body: Any) -> httpx.Response:
        return self._http.post(path, json=body, headers=self._key)

    def sell(self, name: str, **changes: Any) -> None:
        paid = {"paymentMethod": {"type": "card", "cardDetails": CARD}, "billingAddress": {"country": "MX"}}
        order = {"externalId": name, "amount": 10_000, "currency": "MXN", "customer": {"externalId": "ana"}}
        assert self.post(ORDERS, {**order, **paid, **changes}).status_code == 201

    def invoiced(self, name: str) -> bool:
        return bool(self.get(f"{ORDERS}/{name}").json()["invoiceStatus"] == "INVOICED")

    def metric(self, name: str, *labels: str) -> float:
        return value_in(self.get("/metrics").text, name, *labels)


def test_all_goes_on_but_what_needs_the_store_and_that_too_when_it_answers_again(store: Running):
    address = store.wait_ready()[0]
    with Service(workers=1, settings=settings(address)) as service:
        service.start()
        client = _Client(service, service.merchant("Panadería"))
        client.sell("before", customerFiscalData=FISCAL)
        until(lambda: client.invoiced("before"))
        link = client.get(f"{ORDERS}/before/cfdi-url").json()["invoice"]["xmlUrl"]
        file = link.removeprefix(link[: link.index(urlsplit(link).path)])
        assert client.get(file).status_code == 200
        client.sell("later")

        os.kill(store.pid, signal.SIGSTOP)
        client.sell("meanwhile", customerFiscalData=FISCAL)
        first = client.get(file)
        assert (first.status_code, first.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
        assert "The store of the documents' files" in first.json()["message"]
        stamped = client.post(f"{ORDERS}/later/stamp", {"fiscalConfig": FISCAL})
        assert (stamped.status_code, stamped.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
        sealed = client.metric("ledger_log_sealed_total")
        client.sell("sealed")
        until(lambda: client.metric("ledger_log_sealed_total") > sealed)
        until(lambda: client.metric("ledger_store_failures_total", "checkpoints") > 0)
        assert client.metric("ledger_store_failures_total", "files") > 0
        assert client.get("/health/ready").status_code == 200

        os.kill(store.pid, signal.SIGCONT)
        until(lambda: client.invoiced("meanwhile"))
        until(lambda: client.get(file).status_code == 200)
        assert client.post(f"{ORDERS}/later/stamp", {"fiscalConfig": FISCAL}).status_code == 200
        until(lambda: client.invoiced("later"))
        written = client.metric("ledger_checkpoint_files_total", "written")
        until(lambda: client.metric("ledger_checkpoint_files_total", "written") > written)
        lines = [
            json.loads(line) for line in (service.home / "service.log").read_text().splitlines() if line[:1] == "{"
        ]
        changes = {(line["event"], line["files"]) for line in lines if line["event"].startswith("store_")}
        assert changes == {
            (event, of) for event in ("store_silent", "store_answers") for of in ("files", "checkpoints")
        }
