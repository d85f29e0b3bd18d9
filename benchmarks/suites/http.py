"""How fast the service answers over HTTP, against single INSERTs (R) and a bare Starlette echo (E) of the same body.

The service under test is the real one, started by its own command, with authentication, every index and durable
commits. Only the rate limit of the benchmark's merchant is off.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final
from uuid import UUID, uuid4

import psycopg
from msgspec.structs import replace

from benchmarks.load import commits, order_actions, order_body
from benchmarks.load.limits import EchoLimit, InsertLimit, echo_limit
from benchmarks.load.order_body import Way
from benchmarks.load.processes import run_one
from benchmarks.load.requests import ORDER, UNIQUE, LoadPlan, Step
from benchmarks.measure.budget import CARD, CREATE, READ, cost_ratios
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs, child_of, resident_mb
from benchmarks.measure.samples import Sample, in_turns, show_progress, typical
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, compare, p50, p99, per_second, residual_p99
from ledger.domain.orders.statuses import OrderStatus
from ledger.processors.stripe.transport import URL
from ledger.settings import CannotRun, Settings

_LEDGER: Final = (sys.executable, "-c", "from ledger.cli.main import main; main()")
_NO_LIMIT: Final = ("--requests-per-minute", "0", "--requests-per-second", "0")
_READ_MAX: Final = 5_000
_PREPARING_MIN_S: Final = 0.5
_CAPTURED_MAX_S: Final = 60.0
_FILL_MAX_S: Final = 900.0

_R, _E = f"R: INSERT, {CLIENTS} clients", f"E: echo, {IN_FLIGHT} in flight"
_ONE_INSERT, _ONE_CREATE = "INSERT, one client", f"{CREATE}, one in flight"
_MANY: Final = 256
_MANY_CREATE: Final = f"{CREATE}, {_MANY} in flight"
_ONE_TAIL: Final = Target(5, at_most=True)
_PART, _REFUND, _SECURE = "part of a split order", "refund", "3-D Secure"
_SAVED, _PAGE = "create with saved card", "first page of 20 orders"
_ACTIONS: Final = (_PART, _REFUND, _SECURE, _SAVED)
_RATIOS: Final = (
    (CREATE, _R, per_second, Target(0.32)),
    (CREATE, _E, per_second, None),
    (CREATE, _R, p99, Target(5, at_most=True)),
    (_MANY_CREATE, _R, p99, Target(10, at_most=True)),
    (CREATE, _R, residual_p99, None),
    (_MANY_CREATE, _R, residual_p99, None),
    (_ONE_CREATE, _ONE_INSERT, p50, Target(4, at_most=True)),
    (READ, _E, per_second, Target(0.45)),
    (_PAGE, _E, per_second, Target(0.25)),
    *[(action, limit, per_second, None) for action in (CARD, *_ACTIONS) for limit in (_R, _E)],
)
_TARGETS_OF_TWO: Final = {(CREATE, _R, per_second): Target(0.34)}


class Service:
    """The running service, and the load that can be put on it."""

    def __init__(self, process: subprocess.Popen[str], port: int, base_path: str, merchant_id: UUID, key: str) -> None:
        self.process = process
        self._port, self.base_path = port, base_path
        self._orders = f"{base_path}/v2/payment-orders"
        self._headers = {"x-api-key": key}
        self._numbers = count(1)
        self.merchant_id = merchant_id

    def of_merchant(self, merchant_id: UUID, key: str) -> Service:
        """Returns the same running service as another merchant uses it."""
        return Service(self.process, self._port, self.base_path, merchant_id, key)

    @property
    def address(self) -> str:
        """The address of the API, with its base path."""
        return f"http://127.0.0.1:{self._port}{self.base_path}"

    @property
    def orders(self) -> str:
        """The path of all orders."""
        return self._orders

    def create(self, seconds: float, in_flight: int, way: Way = "pending") -> Sample:
        """POSTs the README's order, each time under an external id of its own."""
        step = Step(path=self._orders, body=order_body.body(f"pedido-{UNIQUE}", way), expect=201)
        return self._load([step], seconds, in_flight)

    def read(self, order_ids: list[UUID], seconds: float, in_flight: int, uses: int = 0) -> Sample:
        """GETs these orders in turn, each at most `uses` times unless that is 0."""
        step = Step(path=f"{self._orders}/{ORDER}")
        return self._load([step], seconds, in_flight, order_ids, uses)

    def read_as_of(self, order_ids: list[UUID], query: str, seconds: float, in_flight: int) -> Sample:
        """GETs these orders of the past in turn, each any number of times."""
        return self._load([Step(path=f"{self._orders}/{ORDER}?{query}")], seconds, in_flight, order_ids, uses=0)

    def first_page(self, seconds: float, in_flight: int) -> Sample:
        """GETs the newest twenty orders."""
        return self._load([Step(path=self._orders)], seconds, in_flight)

    def list_orders(self, query: str, seconds: float, in_flight: int) -> Sample:
        """GETs a page of orders by this query."""
        return self._load([Step(path=f"{self._orders}?{query}")], seconds, in_flight)

    def create_with_saved_card(self, cards: list[str], seconds: float, in_flight: int) -> Sample:
        """POSTs the README's order of these customers, each paid by its saved card (see `order_body.saved_card`)."""
        step = Step(path=self._orders, body=order_body.by_saved_card(f"pedido-{UNIQUE}"), expect=201)
        return self._load([step], seconds, in_flight, cards, uses=0)

    def part(self, order_ids: list[UUID], seconds: float, in_flight: int) -> Sample:
        """Pays a tenth of these split orders by card, in turn."""
        return self._load(order_actions.part(self._orders), seconds, in_flight, order_ids)

    def refund(self, order_ids: list[UUID], seconds: float, in_flight: int) -> Sample:
        """Refunds a tenth of these paid orders, in turn."""
        return self._load(order_actions.refund(self._orders), seconds, in_flight, order_ids)

    def authenticate(self, seconds: float, in_flight: int) -> Sample:
        """Pays by a card whose bank asks its holder, who accepts: three requests each."""
        return self._load(order_actions.authentication(self._orders), seconds, in_flight)

    def post_each(self, path: str, body: str, values: Sequence[str], in_flight: int = IN_FLIGHT) -> Sample:
        """POSTs the body once with each of these values as `ORDER`. Raises CannotRun if an answer is not 201."""
        one = self._load(
            [Step(path=f"{self.base_path}{path}", body=body, expect=201)], _FILL_MAX_S, in_flight, values, 1
        )
        if one.ended < len(values):
            raise CannotRun(f"{path}: {one.ended} of {len(values)} requests were answered 201, others {one.others}")
        return one

    def _load(
        self,
        steps: list[Step],
        seconds: float,
        in_flight: int,
        order_ids: Sequence[UUID | str] = (),
        uses: int = order_body.SHARES,
    ) -> Sample:
        return run_one("benchmarks.load.requests", self.plan(steps, seconds, in_flight, order_ids, uses))

    def plan(
        self,
        steps: list[Step],
        seconds: float,
        in_flight: int,
        order_ids: Sequence[UUID | str] = (),
        uses: int = order_body.SHARES,
    ) -> LoadPlan:
        """Returns the plan of a load on this service, by this merchant."""
        return LoadPlan(
            host="127.0.0.1",
            port=self._port,
            connections=in_flight,
            seconds=seconds,
            steps=steps,
            headers=self._headers,
            orders=[str(order_id) for order_id in order_ids],
            uses=uses,
            first=next(self._numbers) << 32,
        )


@contextmanager
def service(
    url: str,
    settings: Settings,
    folder: Path,
    workers: int = 1,
    renewals_per_second: int = 40,
    stripe_url: str = URL,
    seal_s: float = 10.0,
) -> Iterator[Service]:
    """Runs `ledger serve` on that database with so many API processes and a new merchant. Raises CannotRun."""
    environment = _environment(url, folder) | {
        "LEDGER_WORKERS": str(workers),
        "LEDGER_RENEWALS_PER_SECOND": str(renewals_per_second),
        "LEDGER_STRIPE_URL": stripe_url,
        "LEDGER_SEAL_S": f"{seal_s:g}",
    }
    process = subprocess.Popen([*_LEDGER, "serve"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            raise CannotRun("the service under test did not start")
        merchant_id, key = new_merchant(url, folder)
        port = int(ready[1].rpartition(":")[2])
        yield Service(process, port, settings.base_path, merchant_id, key)
    finally:
        process.terminate()
        process.wait(15)


def new_merchant(url: str, folder: Path) -> tuple[UUID, str]:
    """Returns a new merchant without rate limits, and its API key. Raises CannotRun."""
    made = subprocess.run(
        [*_LEDGER, "merchants", "create", f"bench-{uuid4().hex[:6]}", *_NO_LIMIT, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(url, folder),
    )
    if made.returncode:
        raise CannotRun(f"the benchmark's merchant could not be created: {' '.join(made.stderr.split())[-300:]}")
    merchant = json.loads(made.stdout)
    return UUID(merchant["merchantId"]), merchant["apiKey"]


def connect_stripe(url: str, folder: Path, merchant_id: UUID, name: str, secret_key: str, stripe_url: str) -> None:
    """Connects an account of a merchant with Stripe at this address. Raises CannotRun."""
    connected = subprocess.run(
        [*_LEDGER, "processors", "connect", str(merchant_id), name, "--processor", "stripe", "--secret-key-file", "-"],
        input=secret_key,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(url, folder) | {"LEDGER_STRIPE_URL": stripe_url},
    )
    if connected.returncode:
        raise CannotRun(f"the account could not be connected: {' '.join(connected.stderr.split())[-300:]}")


def _environment(url: str, folder: Path) -> dict[str, str]:
    return os.environ | {
        "LEDGER_DATABASE_URL": url,
        "LEDGER_DATA_DIR": str(folder),
        "LEDGER_PORT": "0",
        "LEDGER_LOG_LEVEL": "warning",
        "LEDGER_ENVIRONMENT": "sandbox",
    }


def report(url: str, settings: Settings, folder: Path, seconds: float, rounds: int, processes: int = 1) -> Report:
    """Measures creates, reads and actions on orders with so many API processes, in turn with both limits."""
    body = order_body.body(f"pedido-{UNIQUE}")
    limit = InsertLimit(url, event := commits.event_bytes("order"))
    with service(url, settings, folder, processes) as under_test, echo_limit() as echo:
        show_progress("warming up")
        under_test.create(1, IN_FLIGHT)
        under_test.create(1, IN_FLIGHT, "card")
        ids = order_ids(url, under_test.merchant_id)
        api = child_of(under_test.process.pid, "api")
        costs = Costs(under_test.process.pid, url, echo.pid)
        taken = in_turns(
            rounds,
            {
                _R: costs.of_insert(partial(limit.run, CLIENTS, seconds)),
                _E: costs.of_echo(partial(EchoLimit.run, echo, body, IN_FLIGHT, seconds)),
                CREATE: costs.of(CREATE, partial(under_test.create, seconds, IN_FLIGHT)),
                READ: costs.of(READ, partial(under_test.read, ids, seconds, IN_FLIGHT)),
                _PAGE: costs.of(_PAGE, partial(under_test.first_page, seconds, IN_FLIGHT)),
                CARD: costs.of(CARD, partial(under_test.create, seconds, IN_FLIGHT, "card")),
                _ONE_INSERT: partial(limit.run, 1, seconds),
                _ONE_CREATE: partial(under_test.create, seconds, 1),
                _MANY_CREATE: partial(under_test.create, seconds, _MANY),
                **actions(under_test, url, costs, seconds),
            },
        )
        resident = resident_mb(api)
    is_one = processes == 1
    ratios = [
        compare(taken, of, to, what, target if is_one else _TARGETS_OF_TWO.get((of, to, what)))
        for of, to, what, target in _RATIOS
    ]
    alone = median(one.p99_ms / one.p50_ms for one in taken[_ONE_CREATE])
    ratios.append(Ratio(of=f"{_ONE_CREATE}, p99", to=f"{_ONE_CREATE}, p50", value=alone, target=_ONE_TAIL))
    ratios += cost_ratios(costs, resident, has_targets=is_one)
    return Report(
        name=f"HTTP, {IN_FLIGHT} in flight, API processes: {processes}",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=ratios,
        facts={
            "body": f"{len(body.encode()) - len(UNIQUE) + 16} bytes, event {len(event)} bytes",
            "load generator's share of one core": f"{typical(taken[CREATE]).cpu_s / seconds:.0%} during create",
            **costs.facts(),
        },
    )


def actions(
    under_test: Service, url: str, costs: Costs, seconds: float, in_flight: int = IN_FLIGHT
) -> dict[str, Callable[[], Sample]]:
    """Returns the runs of actions on orders. The orders that they need are made before they are measured."""

    def on_new_orders(name: str, way: Way, run: Callable[[list[UUID], float, int], Sample]) -> Callable[[], Sample]:
        def turn() -> Sample:
            made = under_test.create(max(seconds / 2, _PREPARING_MIN_S), in_flight, way)
            ids = newest_orders(url, under_test.merchant_id, made.done)
            return costs.of(name, partial(run, ids, seconds, in_flight))()

        return turn

    def authenticated() -> Sample:
        one = costs.of(_SECURE, partial(under_test.authenticate, seconds, in_flight))()
        left = uncaptured(url, under_test.merchant_id)
        return replace(one, others=one.others | {"not captured": left}) if left else one

    def by_saved_card() -> Sample:
        under_test.create(_PREPARING_MIN_S, in_flight, "saving")
        cards = saved_cards(url, under_test.merchant_id)
        return costs.of(_SAVED, partial(under_test.create_with_saved_card, cards, seconds, in_flight))()

    return {
        _PART: on_new_orders(_PART, "split", under_test.part),
        _REFUND: on_new_orders(_REFUND, "card", under_test.refund),
        _SECURE: authenticated,
        _SAVED: by_saved_card,
    }


def newest_orders(url: str, merchant_id: UUID, limit: int) -> list[UUID]:
    """Returns the newest orders, on which no other run has acted."""
    query = "select order_id from payment_order where merchant_id = %s order by created_at desc limit %s"
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(query, [merchant_id, limit])]


def saved_cards(url: str, merchant_id: UUID) -> list[str]:
    """Returns saved cards of the merchant's customers, each as the fields of an order that is paid by it."""
    query = (
        "select customer_id, payment_method_id from payment_method where merchant_id = %s and doc is not null limit %s"
    )
    with psycopg.connect(url) as connection:
        return [order_body.saved_card(*row) for row in connection.execute(query, [merchant_id, _READ_MAX])]


def uncaptured(url: str, merchant_id: UUID) -> int:
    """Returns how many orders are still AUTHORIZED after a minute. The worker captures them within seconds."""
    query = "select count(*) from payment_order where merchant_id = %s and status = %s"
    ends_at = time.monotonic() + _CAPTURED_MAX_S
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            row = connection.execute(query, [merchant_id, OrderStatus.AUTHORIZED.value]).fetchone()
            assert row is not None, "an aggregate always answers"
            if not row[0] or time.monotonic() > ends_at:
                return int(row[0])
            time.sleep(0.2)


def order_ids(url: str, merchant_id: UUID) -> list[UUID]:
    """Returns some orders of the merchant, old and new, pending and paid."""
    query = "select order_id from payment_order where merchant_id = %s order by random() limit %s"
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute(query, [merchant_id, _READ_MAX])]
