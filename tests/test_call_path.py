"""How far one refund goes through the code: a bound on the modules it enters and on the jumps between operations."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.api.bodies import by_card, order
from tests.api.storefront import opened

import ledger
from api.app import create_app
from api.http import open_requests
from api.http.middleware import Middleware
from ledger.operations import clock
from ledger.settings import Settings

SRC = f"{Path(ledger.__file__).parents[1]}/"
PER_COLUMN = {"ledger/postgres/arrays.py"}  # entered once per column
BESIDE = {"ledger/postgres/listener.py"}  # a connection
COUNTS = {
    "api/http/open_requests.py",
    "ledger/operations/pipeline/payment_metrics.py",
    "ledger/operations/pipeline/processor_metrics.py",
    "ledger/telemetry/logs.py",
}  # what is noted of a refund and decides nothing about it


class CallPath:
    """The modules under src in the order in which they run: calls, returns and resumed coroutines included."""

    def __init__(self):
        self.modules = []

    def __call__(self, frame, event, _):
        if event == "return":
            frame = frame.f_back
            while frame is not None and not frame.f_code.co_filename.startswith(SRC):
                frame = frame.f_back
        if event not in {"call", "return"} or frame is None or not frame.f_code.co_filename.startswith(SRC):
            return
        module = frame.f_code.co_filename.removeprefix(SRC)
        if module not in PER_COLUMN | COUNTS and self.modules[-1:] != [module]:
            self.modules.append(module)

    def changes_in(self, package):
        """How often control passes from one module of a package to another one of it."""
        inside = [module for module in self.modules if module.startswith(package)]
        return sum(one != other for one, other in pairwise(inside))


@pytest.mark.anyio
async def test_a_refund_is_followed_through_few_modules(database_url, monkeypatch):
    monkeypatch.setattr(clock, "BELIEVED_S", 600.0)  # a slow machine would read the merchant's clock once more
    monkeypatch.setattr(open_requests, "LATE_MAX_S", 600.0)  # and look at the open requests during a refund
    settings = Settings(
        database_url=database_url, database_app_url=database_url, master_key="11" * 32, access_log="off"
    )
    async with opened(settings) as store:
        merchant = await store.register()
        body = order(pending=False, paymentMethod=by_card(), billingAddress={"country": "MX"})
        paid = (await merchant.create(body)).json()
        paths = [await followed(merchant, f"/api/v2/payment-orders/{paid['id']}/refund") for _ in range(10)]
    # What runs beside a refund, such as a timer of the process, comes between on a busy machine.
    assert min(len(set(path.modules) - BESIDE) for path in paths) <= 65
    assert min(path.changes_in("ledger/operations") for path in paths) <= 40
    # Traces are off by default, and then free.
    assert not [module for path in paths for module in path.modules if re.search("tracing|spans", module)]
    assert type(create_app(settings)) is Middleware


async def followed(merchant, refund):
    path = CallPath()
    sys.setprofile(path)
    answer = await merchant.post(refund, {"amount": 500})
    sys.setprofile(None)
    assert answer.status_code == 200, answer.text
    return path
