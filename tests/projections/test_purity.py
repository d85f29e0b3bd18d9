"""Rows are a function of the log alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import projections

ROOT = Path(projections.__file__).parent
READING = {
    "as_of/orders.py",
    "as_of/points.py",
    "as_of/reads.py",
    "as_of/reports.py",
    "as_of/snapshots.py",
    "as_of/subscriptions.py",
    "as_of/summaries.py",
    "erasures.py",
    "events/numbered.py",
    "events/states.py",
    "histories/pages.py",
    "histories/steps.py",
    "lists/in_flight.py",
    "lists/pool.py",
    "lists/shared_pages.py",
    "orders/month_end.py",
    "orders/open_calls.py",
    "queries.py",
    "search/compaction.py",
    "search/counts.py",
}
"""Modules that read rows and streams, show times in a time zone, or pack and count again what rows already contain."""
NAMES = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
PURE = sorted(NAMES - READING)

FORBIDDEN_MODULES = {"asyncio", "locale", "os", "platform", "random", "secrets", "socket", "sys", "time", "zoneinfo"}
FORBIDDEN_CALLS = {
    "now",
    "utcnow",
    "today",
    "uuid1",
    "uuid4",
    "uuid7",
    "hash",
    "id",
    "getenv",
    "localtime",
    "astimezone",
}


@pytest.mark.parametrize("name", PURE)
def test_rendering_reads_no_clock_no_random_number_and_no_environment(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    assert [problem for node in ast.walk(tree) for problem in _problems(node)] == []


def test_every_module_that_is_excepted_exists() -> None:
    assert READING <= NAMES


def test_the_check_finds_every_forbidden_construct() -> None:
    guilty = (
        "import os\nfrom random import choice\nx = datetime.now()\nfor y in {1, 2}: pass\nz = [y for y in set(x)]\n"
    )
    assert len([problem for node in ast.walk(ast.parse(guilty)) for problem in _problems(node)]) == 5


def _problems(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names if name.name.split(".")[0] in FORBIDDEN_MODULES]
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
            return [module]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in FORBIDDEN_CALLS:
            return [name]
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if _is_unordered(iterated):
            return ["the order of a set"]
        case _:
            return []


def _is_unordered(node: ast.expr) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"set", "frozenset"}
    return called or isinstance(node, ast.Set | ast.SetComp)


_DIGEST = """
import hashlib
from msgspec import Raw
from tests.domain.builders import created, folded, paid, SPLIT_WITH_SURCHARGE
from projections.orders.head import render_head
from projections.orders.payments import render_payments
digest = hashlib.sha256()
for events in ((created(metadata=Raw(b'{"b":1,"a":2}')), *paid(1, 10_000)), (SPLIT_WITH_SURCHARGE, *paid(1, 4_000, 120))):
    order = folded(events)
    digest.update(render_head(order) + render_payments(order))
print(digest.hexdigest())
"""


def test_another_process_with_another_hash_seed_time_zone_and_locale_renders_the_same_bytes() -> None:
    digests = set()
    for seed, zone, locale in (
        ("1", "UTC", "C"),
        ("2", "America/Mexico_City", "C.UTF-8"),
        ("3", "Asia/Kathmandu", "POSIX"),
    ):
        environment = os.environ | {"PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale, "PYTHONPATH": "src:."}
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT.parents[1],
        )
        digests.add(done.stdout)
    assert len(digests) == 1
