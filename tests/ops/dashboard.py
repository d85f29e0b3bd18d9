"""Asks a real Prometheus for every panel of the dashboard, and draws them: `python -m tests.ops.dashboard [PICTURE.png]`.

Runs the service with its demo and a minute of mixed requests, and Debian's `prometheus` that scrapes it. Fails where a
query of `ops/grafana/ledger.json` is refused, or returns nothing. The picture needs `chromium`. It has the dashboard's
panels, titles and places, with lines of our own: it is no picture of Grafana.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import httpx
from tests.docs.examples import Service, Shell

DASHBOARD = Path(__file__).parents[2] / "ops" / "grafana" / "ledger.json"
LOAD_S, STEP_S, PATIENCE_S = 75.0, 2, 60.0
CARDS = ("4242424242424242",) * 7 + ("4000000000000002", "4000000000009995", "4000000000000119")
CELL_W, CELL_H = 56, 42
COLOURS = ("#2f6fb3", "#d9822b", "#3a9a5b", "#b5413b", "#7a5ea8", "#4f9aa8", "#8a6d3b", "#c2579a")


def main() -> None:
    place = Path(tempfile.mkdtemp(prefix="ledger-dashboard-", dir="/tmp"))
    place.chmod(0o711)
    try:
        with Service(place / "data") as service, prometheus(place, service.url) as address:
            began = time.time()
            load(service)
            panels = json.loads(DASHBOARD.read_text())["panels"]
            found = {panel["id"]: answers(address, panel, began) for panel in panels}
            if len(sys.argv) > 1:
                picture(panels, found, place, Path(sys.argv[1]).absolute())
    finally:
        shutil.rmtree(place, ignore_errors=True)
    without = [panel["title"] for panel in panels if not all(found[panel["id"]])]
    print(f"{len(panels)} panels asked; without data: {', '.join(without) or 'none'}")  # noqa: T201 - a programme
    sys.exit(bool(without))


@contextmanager
def prometheus(place: Path, service: str) -> Iterator[str]:
    """Yields the address of a Prometheus that scrapes the service every two seconds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = service.removeprefix("http://")
    (place / "prometheus.yml").write_text(
        f"scrape_configs: [{{job_name: ledger, scrape_interval: {STEP_S}s, static_configs: [{{targets: ['{target}']}}]}}]"
    )
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={place}/prometheus.yml",
            f"--storage.tsdb.path={place}/tsdb",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
    )
    try:
        address, until = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
        while True:
            with suppress(URLError), urlopen(f"{address}/-/ready"):
                break
            assert time.monotonic() < until, "Prometheus did not become ready"
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def load(service: Service) -> None:
    """Sends orders of every kind for a while, with refunds, lost disputes, reads and requests that are refused."""
    with Shell(service) as shell:
        limits = "--requests-per-minute 0 --requests-per-second 0"
        merchant = json.loads(shell.run(f"ledger merchants create Practice {limits} --json"))
    orders = f"{service.url}/api/v2/payment-orders"
    chance, until = random.Random(7), time.monotonic() + LOAD_S
    with httpx.Client(headers={"x-api-key": merchant["apiKey"]}, timeout=60.0) as client:
        number = 0
        while time.monotonic() < until:
            number += 1
            created = client.post(orders, json=_order(number, chance)).json()
            client.get(f"{orders}/{created.get('id', number)}")
            if created.get("status") == "COMPLETED" and number % 4 == 0:
                client.post(f"{orders}/{created['id']}/refund", json={"amount": 5000})
            elif created.get("status") == "COMPLETED" and number % 15 == 2:
                lost = {"paymentId": created["payments"][0]["id"], "outcome": "LOST"}
                client.post(f"{service.url}/api/sandbox/disputes", json=lost)
            if number % 9 == 0:
                client.post(orders, json={"amount": -1})
            time.sleep(0.05 + 0.05 * math.sin(number / 40) ** 2)


def _order(number: int, chance: random.Random) -> dict[str, Any]:
    customer = {"externalId": f"payer-{number % 50}", "firstName": "Ana", "email": "ana@example.com"}
    body = {"amount": 10000 + number, "currency": "MXN", "externalId": f"order-{number}", "customer": customer}
    if number % 6 == 0:
        return body | {"pending": True}
    if number % 14 == 4:
        return body | {"paymentMethod": {"type": "spei"}}
    pick = "4000000000000119" if number == 31 else chance.choice(CARDS[:-1])
    card = {"number": pick, "expiryMonth": "12", "expiryYear": "34", "cvc": "123"}
    method = {"type": "card", "cardDetails": card}
    capture = {"captureMethod": "MANUAL"} if number % 10 == 5 else {}
    return body | capture | {"paymentMethod": method, "billingAddress": {"city": "Puebla", "country": "MX"}}


def answers(address: str, panel: dict[str, Any], began: float) -> list[list[dict[str, Any]]]:
    """Returns the series of each query of a panel, from the first request on, without points that are no number."""
    found = []
    for target in panel["targets"]:
        asked = {"query": filled_in(target["expr"]), "start": began, "end": time.time(), "step": STEP_S}
        with urlopen(f"{address}/api/v1/query_range?{urlencode(asked)}") as answer:
            series = json.load(answer)["data"]["result"]
        for each in series:
            each["name"] = _legend(target.get("legendFormat", ""), each["metric"])
            each["points"] = [
                (at, float(value)) for at, value in each["values"] if value not in ("NaN", "+Inf", "-Inf")
            ]
        found.append([each for each in series if each["points"]])
    return found


def filled_in(expression: str) -> str:
    """Returns a query of the dashboard without Grafana's variables."""
    for variable, value in (("$instance", ".*"), ("$__range", "5m"), ("$__rate_interval", "1m")):
        expression = expression.replace(variable, value)
    return expression


def _legend(form: str, labels: dict[str, str]) -> str:
    if not form or form == "__auto":
        return " ".join(value for name, value in labels.items() if name != "__name__") or "value"
    return re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match[1], ""), form)


def picture(panels: list[dict[str, Any]], found: dict[int, Any], place: Path, target: Path) -> None:
    """Draws the panels at their places, and writes a PNG."""
    width = 24 * CELL_W
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * CELL_H
    drawn = "".join(_panel(panel, [each for part in found[panel["id"]] for each in part]) for panel in panels)
    page = (
        f'<body style="margin:0"><svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#f2f3f5"/>{drawn}</svg>'
    )
    (place / "panels.html").write_text(page)
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={place}/browser")
    options += ("--force-device-scale-factor=0.7",)
    shot = (f"--window-size={width},{height}", f"--screenshot={target}", f"file://{place}/panels.html")
    subprocess.run(["chromium", *options, *shot], check=True, capture_output=True, timeout=120)


def _panel(panel: dict[str, Any], series: list[dict[str, Any]]) -> str:
    grid = panel["gridPos"]
    x, y, w, h = grid["x"] * CELL_W + 4, grid["y"] * CELL_H + 4, grid["w"] * CELL_W - 8, grid["h"] * CELL_H - 8
    config = panel.get("fieldConfig", {}).get("defaults", {})
    unit = config.get("unit", "")
    frame = f'<g transform="translate({x},{y})"><rect width="{w}" height="{h}" rx="4" fill="#fff" stroke="#d5d8dc"/>'
    title = f'<text x="10" y="19" font-weight="bold">{escape(panel["title"])}</text>'
    inner = _value(series, unit, w, h) if panel["type"] == "stat" else _lines(series, unit, w, h)
    axis = config.get("custom", {}).get("axisLabel", "")
    beside = f'<text x="{w - 12}" y="19" text-anchor="end" fill="#666">{escape(axis)}</text>'
    return f"{frame}{title}{beside}{inner}</g>"


def _value(series: list[dict[str, Any]], unit: str, w: int, h: int) -> str:
    if not series:
        return f'<text x="{w / 2}" y="{h / 2 + 14}" text-anchor="middle" font-size="20">no data</text>'
    last = series[0]
    text = last["name"] if "version" in last["metric"] else _number(last["points"][-1][1], unit)
    return (
        f'<text x="{w / 2}" y="{h / 2 + 22}" text-anchor="middle" font-size="34" fill="#3a9a5b">{escape(text)}</text>'
    )


def _lines(series: list[dict[str, Any]], unit: str, w: int, h: int) -> str:
    series = sorted(series, key=lambda each: -max(value for _, value in each["points"]))[: len(COLOURS)]
    times = [at for each in series for at, _ in each["points"]] or [0.0]
    top = max([value for each in series for _, value in each["points"]], default=0.0) or 1.0
    left, right, upper, lower = 62, w - 12, 34, h - 22 - 15 * ((len(series) + 1) // 2)
    span = max(times) - min(times) or 1.0
    drawn = []
    for part in (0.0, 0.5, 1.0):
        at = lower - part * (lower - upper)
        drawn.append(f'<line x1="{left}" x2="{right}" y1="{at}" y2="{at}" stroke="#e6e8eb"/>')
        drawn.append(
            f'<text x="{left - 6}" y="{at + 4}" text-anchor="end" fill="#666">{_number(part * top, unit)}</text>'
        )
    for number, (each, colour) in enumerate(zip(series, COLOURS, strict=False)):
        points = " ".join(
            f"{left + (at - min(times)) / span * (right - left):.1f},{lower - value / top * (lower - upper):.1f}"
            for at, value in each["points"]
        )
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        column, row = left - 50 + number % 2 * (w // 2 - 10), lower + 20 + 15 * (number // 2)
        drawn.append(f'<rect x="{column}" y="{row - 8}" width="10" height="3" y2="0" fill="{colour}"/>')
        drawn.append(f'<text x="{column + 15}" y="{row}" fill="#333">{escape(each["name"][: w // 15])}</text>')
    return "".join(drawn)


def _number(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return f"{value / (1 << 20):.4g} MiB"
    if unit == "s":
        return f"{1000 * value:.3g} ms" if 0 < value < 1 else f"{value:.3g} s"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
