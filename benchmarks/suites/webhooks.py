"""Webhooks and the feed: deliveries beside a bare client, what they cost requests, and how late a message arrives.

The receiver counts messages at the endpoints whose path begins with `/ok`. How late a message is counts from the time
of its command, which is before the commit: the figures are upper bounds of the time from commit to arrival.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import psycopg
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.load import order_body
from benchmarks.load.event_rendering import RenderingPlan
from benchmarks.load.growth import mark_handled
from benchmarks.load.history import HistoryPlan, LogPlan
from benchmarks.load.posts import PostPlan
from benchmarks.load.processes import child, run_one, run_together
from benchmarks.load.requests import ORDER, UNIQUE, Step
from benchmarks.load.webhook_receiver import COUNTED, DRIP, FORGET, HANG, OK, Counted
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs, child_of, cpu_s, peak_mb
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import Service, new_merchant, service
from benchmarks.suites.journal import IN_FLIGHT, p99, per_second
from ledger.domain.webhooks.terms import ENDPOINTS_MAX
from ledger.settings import CannotRun, Settings

ENDPOINTS: Final = (1, 10, 100)
MISSED: Final = 10_000
"""How many messages all endpoints together get in a round."""
PAGE: Final = 1_000

_REFUSES: Final = "http://127.0.0.1:1"
_POSTS_IN_FLIGHT: Final = 32
_RATE: Final = 100
_LATE_S: Final = 5.0
"""How long a sample of lateness takes at least: its p99 is then about five messages or more."""
_HEALTHY, _ILL = 70, 30
_BESIDE_RATE: Final = 3  # orders a second of each of seven merchants
_PATIENCE_S: Final = 120.0
_OF_CLIENT: Final = Target(0.3)
_WITH_ONE: Final = Target(0.75)
_OF_RENDERING: Final = Target(0.5)
_KEPT: Final = Target(1.5, at_most=True)

_CLIENT: Final = f"bare client, {_POSTS_IN_FLIGHT} in flight"
_CREATE, _CREATE_WITH = "create", "create, one endpoint for everything"
_LATE: Final = f"commit to arrival, {_RATE} orders a second"
_ALONE: Final = f"{_HEALTHY} healthy endpoints"
_BESIDE: Final = f"{_HEALTHY} healthy endpoints beside {_ILL} that hang, drip or refuse"
_BACKLOGS: Final = (0.5, 2.0, 10.0)
"""How long the backlogs of one endpoint are, as parts of what all endpoints together miss in a round."""
_MESSAGES_PER_ORDER: Final = 3
_NUMBERED: Final = """
select f.sequence, f.position >= h.position from event_feed f join merchant_head h using (merchant_id)
 where merchant_id = %s
"""
_LAST: Final = """
select h.position, c.customer_id from merchant_head h join customer c using (merchant_id) where h.merchant_id = %s limit 1
"""
_UNSEALED: Final = """
select exists (select from merchant_head h left join log_tree t using (merchant_id)
                where h.position > coalesce(t.size, 0))
"""
_AT_REST_S: Final = 0.5
_AT_REST_MAX: Final = 0.1
_FLAT: Final = Target(0.8)
_FEED, _RENDERING = f"feed by pages of {PAGE}", "folding and rendering alone"


class Receiver:
    """The receiver of the messages. `url` is its address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def forget(self) -> None:
        """Sets what was counted to zero."""
        self._ask(FORGET)

    def counted(self) -> Counted:
        return msgspec.json.decode(self._ask(COUNTED), type=Counted)

    def all_of(self, messages: int) -> Counted:
        """Waits until so many messages have arrived. Raises CannotRun if no further one comes for two minutes."""
        counted, changed_at = Counted(), time.monotonic()
        while counted.messages < messages:
            before, counted = counted.messages, self.counted()
            changed_at = time.monotonic() if counted.messages != before else changed_at
            if time.monotonic() - changed_at > _PATIENCE_S:
                raise CannotRun(f"{counted.messages} of {messages} messages arrived")
            time.sleep(0.05)
        return counted

    def _ask(self, path: str) -> bytes:
        with urlopen(f"{self.url}{path}") as answer:  # noqa: S310 - the benchmark's own server
            body: bytes = answer.read()
        return body


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Yields the receiver while its process runs."""
    with child("benchmarks.load.webhook_receiver") as process:
        assert process.stdout is not None
        yield Receiver(f"http://127.0.0.1:{process.stdout.readline().decode().strip()}")


class Shop(Struct, frozen=True):
    """A merchant of the service under test."""

    service: Service
    key: str
    database: str

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Returns the JSON that the service answers, which may have it wait. Raises HTTPError if it refuses."""
        headers = {"x-api-key": self.key, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.service.address}{path}", data, headers, method=method)  # noqa: S310 - loopback
        while True:
            try:
                with urlopen(request) as answer:  # noqa: S310
                    return json.loads(answer.read())
            except HTTPError as refused:
                if refused.code != HTTPStatus.SERVICE_UNAVAILABLE:  # it is while the past is being numbered
                    raise
            time.sleep(0.5)

    def add_endpoint(self, url: str) -> str:
        """Creates an endpoint for all kinds, and returns its id."""
        endpoint_id: str = self.ask("POST", "/v1/webhook-endpoints", {"url": url})["id"]
        return endpoint_id

    def disable(self, endpoint_id: str, url: str) -> None:
        self.ask("PUT", f"/v1/webhook-endpoints/{endpoint_id}", {"url": url, "status": "DISABLED"})

    def enable(self, endpoint_id: str, url: str) -> None:
        """Has the endpoint get what it missed."""
        self.ask("PUT", f"/v1/webhook-endpoints/{endpoint_id}", {"url": url, "status": "ENABLED", "resume": "MISSED"})

    def numbered(self) -> int:
        """Returns the number of the merchant's newest event, once all have one."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            while True:
                self.ask("GET", "/v1/events?limit=1&payload=THIN")  # has all numbered, or a part of many
                row = connection.execute(_NUMBERED, [self.service.merchant_id]).fetchone()
                assert row is not None, "the feed was read"
                newest, is_complete = row
                if is_complete:
                    return int(newest)


def reports(server_url: str, settings: Settings, seconds: float, rounds: int, missed: int) -> list[Report]:
    """Measures deliveries, long backlogs, what they cost creates, how late messages are, ill endpoints, and the feed."""
    found = []
    with receiving() as receiver:
        for measure in (
            deliveries_report,
            backlog_report,
            creates_report,
            lateness_report,
            ill_report,
            feed_report,
        ):
            with (
                scratch_database(server_url) as url,
                tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder,
                service(url, settings, Path(folder)) as under_test,
            ):
                found.append(measure(_Bench(under_test, receiver, url, Path(folder), seconds, rounds, missed)))
    return found


class _Bench(Struct, frozen=True):
    """The service under test, its receiver, and how long to measure."""

    service: Service
    receiver: Receiver
    url: str
    folder: Path
    seconds: float
    rounds: int
    missed: int

    def new_shop(self) -> Shop:
        merchant_id, key = new_merchant(self.url, self.folder)
        return Shop(self.service.of_merchant(merchant_id, key), key, self.url)

    def warm_up(self) -> Shop:
        """Returns a merchant that has orders."""
        show_progress("warming up")
        shop = self.new_shop()
        shop.service.create(1, IN_FLIGHT)
        return shop


def deliveries_report(bench: _Bench) -> Report:
    """Measures what endpoints that are enabled again get of what they missed, beside a bare client."""
    shop = bench.warm_up()
    page = shop.ask("GET", "/v1/events?limit=100")["data"]
    posts = PostPlan(
        url=f"{bench.receiver.url}{OK}/bare",
        bodies=[json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in page],
        in_flight=_POSTS_IN_FLIGHT,
        seconds=bench.seconds,
    )
    curves: dict[int, Counted] = {}
    costs = Costs(bench.service.process.pid, bench.url)
    names = {f"deliveries, endpoints: {n}": n for n in ENDPOINTS}

    def deliver(name: str, endpoints: int) -> Sample:
        missed = _miss(bench, endpoints)

        def run() -> Sample:
            curves[endpoints] = counted = missed.deliver(bench.receiver)
            return Sample(done=counted.messages, seconds=counted.last_at - counted.first_at, p50_ms=0, p99_ms=0)

        return costs.of(name, run)()

    runs: dict[str, Callable[[], Sample]] = {_CLIENT: partial(run_one, "benchmarks.load.posts", posts)}
    taken = in_turns(bench.rounds, runs | {name: partial(deliver, name, n) for name, n in names.items()})
    post_us = median(one.cpu_s / one.ended for one in taken[_CLIENT]) * 1e6
    return Report(
        name=f"deliveries, {bench.missed} messages that were missed",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            *[
                Ratio(of=name, to=_CLIENT, value=ratio(taken[name], taken[_CLIENT], per_second), target=_OF_CLIENT)
                for name in names
            ],
            *[
                Ratio(of=f"{name}, worker's processor time", to=_CLIENT, value=costs.means(name)["worker"] / post_us)
                for name in names
            ],
        ],
        facts={
            f"cost of {_CLIENT}": f"{post_us:.0f} µs of the client",
            **costs.facts(),
        }
        | {f"{name}, messages in each second": curves[n].curve for name, n in names.items()},
    )


class _Missed(Struct, frozen=True):
    """Endpoints that were disabled, by their merchants, and how many messages they have missed together."""

    endpoints: list[tuple[Shop, str, str]]
    messages: int

    def deliver(self, receiver: Receiver) -> Counted:
        """Enables the endpoints, and returns what arrived."""
        receiver.forget()
        for shop, endpoint_id, url in self.endpoints:
            shop.enable(endpoint_id, url)
        return receiver.all_of(self.messages)


def _miss(bench: _Bench, endpoints: int) -> _Missed:
    """Has new endpoints miss messages."""
    shops = {bench.new_shop(): share for share in _shares(endpoints)}
    added: list[tuple[Shop, str, str]] = []
    for shop, share in shops.items():
        for n in range(share):
            url = f"{bench.receiver.url}{OK}/{n}"
            endpoint_id = shop.add_endpoint(url)
            shop.disable(endpoint_id, url)
            added.append((shop, endpoint_id, url))
        orders = [str(n) for n in range(bench.missed // endpoints)]
        shop.service.post_each("/v2/payment-orders", order_body.body(f"pedido-{UNIQUE}"), orders)
        shop.numbered()
    _come_to_rest(bench)
    return _Missed(added, sum(shop.numbered() * share for shop, share in shops.items()))


def _come_to_rest(bench: _Bench) -> None:
    """Waits until the worker has sealed and packed what was written: that belongs to the orders, not to deliveries.

    Raises CannotRun if it is still at it after two minutes.
    """
    deadline = time.monotonic() + _PATIENCE_S
    worker = child_of(bench.service.process.pid, "worker")
    assert worker is not None, "the service has a worker"
    with psycopg.connect(bench.url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            used = cpu_s(worker)
            time.sleep(_AT_REST_S)
            is_busy = cpu_s(worker) - used > _AT_REST_MAX * _AT_REST_S
            if not is_busy and connection.execute(_UNSEALED).fetchone() == (False,):
                return
    raise CannotRun("the worker did not come to rest")


def _shares(endpoints: int) -> list[int]:
    """Returns how many endpoints each merchant has."""
    full, rest = divmod(endpoints, ENDPOINTS_MAX)
    return [ENDPOINTS_MAX] * full + [rest] * bool(rest)


def backlog_report(bench: _Bench) -> Report:
    """Measures how fast one endpoint gets backlogs of growing length, what they cost, and the worker's memory."""
    url = f"{bench.receiver.url}{OK}/back"
    costs = Costs(bench.service.process.pid, bench.url)
    samples: dict[str, Sample] = {}
    facts: dict[str, str] = {}
    for length in (round(bench.missed * part) for part in _BACKLOGS):
        name = f"a backlog of {length}"
        show_progress(name)
        shop = bench.warm_up()
        endpoint_id = shop.add_endpoint(url)
        before = shop.numbered()
        shop.disable(endpoint_id, url)
        _write_orders(bench, shop, length // _MESSAGES_PER_ORDER)
        missed = _Missed([(shop, endpoint_id, url)], shop.numbered() - before)
        _come_to_rest(bench)
        counted = Counted()

        def deliver(missed: _Missed = missed) -> Sample:
            nonlocal counted
            counted = missed.deliver(bench.receiver)
            seconds = counted.last_at - counted.first_at
            return Sample(done=counted.messages, seconds=seconds, p50_ms=0, p99_ms=0)

        samples[name] = costs.of(name, deliver)()
        facts[f"{name}, messages in each second"] = counted.curve
        facts[f"{name}, largest worker until then"] = f"{peak_mb(child_of(bench.service.process.pid, 'worker')):.0f} MB"
    shortest, *_, longest = samples
    worker_us = {name: costs.means(name)["worker"] for name in samples}
    return Report(
        name="backlogs of one endpoint",
        samples=samples,
        ratios=[
            Ratio(
                of=longest,
                to=shortest,
                value=per_second(samples[longest]) / per_second(samples[shortest]),
                target=_FLAT,
            ),
            Ratio(
                of=f"{longest}, worker's processor time", to=shortest, value=worker_us[longest] / worker_us[shortest]
            ),
        ],
        facts=costs.facts() | facts,
    )


def _write_orders(bench: _Bench, shop: Shop, orders: int) -> None:
    """Writes so many orders of a customer of the merchant's to its log by COPY: by requests, it would take minutes."""
    with psycopg.connect(bench.url, autocommit=True) as connection:
        row = connection.execute(_LAST, [shop.service.merchant_id]).fetchone()
        assert row is not None, "the merchant has orders"
        position, customer_id = row
        plan = LogPlan(
            merchant_id=shop.service.merchant_id,
            number=1,
            position=position,
            customers=[customer_id],
            orders=orders,
            step_s=1,
            ends_at=datetime.now(UTC),
        )
        run_together("benchmarks.load.history", [HistoryPlan(url=bench.url, logs=[plan])])
        mark_handled(connection)


def creates_report(bench: _Bench) -> Report:
    """Measures creates of a merchant without endpoints and of one whose endpoint gets everything."""
    without, with_one = bench.warm_up(), bench.new_shop()
    with_one.add_endpoint(f"{bench.receiver.url}{OK}/all")

    def create_with() -> Sample:
        before = with_one.numbered()
        bench.receiver.forget()
        one = with_one.service.create(bench.seconds, IN_FLIGHT)
        bench.receiver.all_of(with_one.numbered() - before)  # nothing is left for the turn of the other merchant
        return one

    costs = Costs(bench.service.process.pid, bench.url)
    create = partial(without.service.create, bench.seconds, IN_FLIGHT)
    taken = in_turns(
        bench.rounds, {_CREATE: costs.of(_CREATE, create), _CREATE_WITH: costs.of(_CREATE_WITH, create_with)}
    )
    api, api_with = (costs.means(name)["API"] for name in (_CREATE, _CREATE_WITH))
    return Report(
        name=f"creates with an endpoint, {IN_FLIGHT} in flight",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(
                of=_CREATE_WITH,
                to=_CREATE,
                value=ratio(taken[_CREATE_WITH], taken[_CREATE], per_second),
                target=_WITH_ONE,
            ),
            Ratio(of=f"{_CREATE_WITH}, API's processor time", to=_CREATE, value=api_with / api),
        ],
        facts=costs.facts(),
    )


def lateness_report(bench: _Bench) -> Report:
    """Measures how late messages arrive while orders come at a fixed rate."""
    shop = bench.warm_up()
    shop.add_endpoint(f"{bench.receiver.url}{OK}/late")
    bench = replace(bench, seconds=max(bench.seconds, _LATE_S))
    _lateness(bench, [shop], _RATE)  # the past is numbered first
    taken = in_turns(bench.rounds, {_LATE: partial(_lateness, bench, [shop], _RATE)})
    some = taken[_LATE]
    return Report(
        name="how late messages arrive",
        samples={_LATE: typical(some)},
        ratios=[
            Ratio(
                of=f"{_LATE}, p50",
                to="1 ms",
                value=median(one.p50_ms for one in some),
                target=Target(300, at_most=True),
            ),
            Ratio(
                of=f"{_LATE}, p99",
                to="1 ms",
                value=median(one.p99_ms for one in some),
                target=Target(1_000, at_most=True),
            ),
        ],
    )


def _lateness(bench: _Bench, shops: Sequence[Shop], rate: float) -> Sample:
    """Returns how late the messages about orders arrive of which each merchant creates so many a second."""
    bench.receiver.forget()
    create = Step(path=shops[0].service.orders, body=order_body.body(f"pedido-{UNIQUE}"), expect=201)
    plans = [replace(shop.service.plan([create], bench.seconds, 16), per_second=rate) for shop in shops]
    created = run_together("benchmarks.load.requests", plans)
    time.sleep(1)  # what is a second late is counted too
    late = sample(bench.receiver.counted().late_s, bench.seconds)
    return replace(late, others={what: n for one in created for what, n in one.others.items()})


def ill_report(bench: _Bench) -> Report:
    """Measures how late messages arrive at healthy endpoints, alone and beside others that do not answer as they should."""
    shops = [bench.new_shop() for _ in _shares(_HEALTHY + _ILL)]
    for n in range(_HEALTHY):
        shops[n % len(shops)].add_endpoint(f"{bench.receiver.url}{OK}/{n}")
    _lateness(bench, shops, _BESIDE_RATE)  # warms up
    alone = [_lateness(bench, shops, _BESIDE_RATE) for _ in range(bench.rounds)]
    ways = (f"{bench.receiver.url}{HANG}", f"{bench.receiver.url}{DRIP}", _REFUSES)
    for n in range(_ILL):
        shops[n % len(shops)].add_endpoint(f"{ways[n % len(ways)]}/{n}")
    beside = [_lateness(bench, shops, _BESIDE_RATE) for _ in range(bench.rounds)]
    return Report(
        name="ill endpoints",
        samples={_ALONE: typical(alone), _BESIDE: typical(beside)},
        ratios=[Ratio(of=f"{_BESIDE}, p99", to=_ALONE, value=ratio(beside, alone, p99), target=_KEPT)],
    )


def feed_report(bench: _Bench) -> Report:
    """Measures the feed by large pages, beside the same pages folded and rendered alone."""
    shop = bench.warm_up()
    values = [str(n) for n in range(PAGE)]
    shop.service.post_each("/v2/payment-orders", order_body.body(f"pedido-{UNIQUE}", "card"), values)
    if shop.numbered() < PAGE:
        raise CannotRun("the merchant has fewer events than a page")
    read = Step(path=f"{shop.service.base_path}/v1/events?afterSequence={ORDER}&limit={PAGE}")
    plan = shop.service.plan([read], bench.seconds, 1, ["0"], 0)
    rendering = RenderingPlan(
        url=bench.url,
        folder=str(bench.folder),
        merchant_id=shop.service.merchant_id,
        limit=PAGE,
        seconds=bench.seconds,
    )
    taken = in_turns(
        bench.rounds,
        {
            _FEED: partial(run_one, "benchmarks.load.requests", plan),
            _RENDERING: partial(run_one, "benchmarks.load.event_rendering", rendering),
        },
    )
    resident = peak_mb(child_of(bench.service.process.pid, "api"))
    return Report(
        name="the feed",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(
                of=_FEED, to=_RENDERING, value=ratio(taken[_FEED], taken[_RENDERING], per_second), target=_OF_RENDERING
            ),
            Ratio(of="API process, largest", to="1 MB", value=resident, target=Target(150, at_most=True)),
        ],
    )
