"""The directions in which the rooms may import each other, and what every module owes its reader."""

import ast
import re
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path for path in SRC.rglob("*.py")
}
LONG = {  # module: why it may be longer than 300 lines
    "ledger.orders.commands": "a list: whoever asks something of an order looks in one place",
    "ledger.settings": "a list: every setting with its bounds and its words, and how one is read",
    "ledger.orders.events": "a list: the storage format of one stream, with its topics",
}

CORE = ("ledger.orders", "ledger.customers", "ledger.merchants", "ledger.requests")
PURE = ("ledger.money", "ledger.ids", "ledger.measures", "ledger.personal", "ledger.rejections")
PURE_STDLIB = (
    "__future__", "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal", "enum", "functools", "itertools",
    "operator", "re", "string", "types", "typing", "uuid", "zoneinfo",
)  # fmt: skip
WAITING = ("ledger.deadlines",)
JOURNAL_TERMS = tuple(f"ledger.journal.{name}" for name in ("append", "coalesce", "connection", "inline", "packing"))

# Where the parts meet: the only modules that may know any other.
WIRING = re.compile(r"api\.app|ledger\.(wiring|demo|cli(_\w+)?(\..*)?|serve|seeding|bench\..*|reactions\.worker)")

# room: (what it may import of ours and of others, what it may not although that is part of it)
ROOMS = {
    PURE: ((*PURE, *PURE_STDLIB, "msgspec"), ()),
    CORE: ((*CORE, *PURE, *PURE_STDLIB, "msgspec"), ()),
    ("ledger.journal",): (
        ("ledger.journal", *CORE, *PURE, "cryptography", "msgspec", "psycopg", "structlog"),
        (r"ledger\.\w+\.(decide\w*|commands|settle)",),
    ),
    ("ledger.recorder",): (  # the only one that knows the library
        ("ledger.recorder", "ledger.journal", "eventsourcing", "msgspec", "psycopg", "psycopg_pool"),
        (r"ledger\.journal\.(writer|reader|coalesce)",),
    ),
    ("ledger.gateways",): (
        ("ledger.gateways", *CORE, *PURE, *JOURNAL_TERMS, *WAITING, "msgspec", "psycopg", "structlog"),
        (r"ledger\.\w+\.(decide\w*|evolve|settle)",),
    ),
    ("ledger.operations.ordinals",): (  # owns the sequence of order numbers, and nothing else of the database
        ("ledger.journal.append", "ledger.journal.connection", "psycopg"),
        (),
    ),
    ("ledger.reactions",): (  # owns what is due, the cursors and the queue of jobs, and the only one that knows procrastinate
        ("ledger.operations", "ledger.reactions", "ledger.journal", "ledger.gateways", "ledger.settings", "ledger.logs", *CORE, *PURE,
         "msgspec", "structlog", "psycopg", "psycopg_pool", "procrastinate", "uuid_utils"),
        (r"ledger\.journal\.(writer|statement)",),
    ),
    ("ledger.operations",): (
        ("ledger.operations", "ledger.journal", "ledger.gateways", "ledger.api_keys", "ledger.settings",
         *CORE, *PURE, *WAITING, "msgspec", "structlog", "uuid_utils"),
        (r"ledger\.journal\.(writer|statement|packing)",),
    ),
    ("projections",): (
        ("projections", *CORE, *PURE, *JOURNAL_TERMS, "msgspec", "psycopg", "psycopg_pool", "uuid_utils"),
        (r"ledger\.\w+\.(decide\w*|commands|settle)",),
    ),
    ("api",): (
        ("api", "projections", "ledger.operations", "ledger.journal.append", "ledger.gateways.contract",
         "ledger.gateways.cards", "ledger.gateways.messages", "ledger.gateways.clabe", "ledger.api_keys", "ledger.settings", "ledger.secrets", "ledger.board", "ledger.figures",
         "ledger.logs", "ledger.request_rates", *CORE, *PURE, *WAITING,
         "msgspec", "starlette", "structlog", "email_validator", "stdnum", "prometheus_client"),
        (r"ledger\.\w+\.(events|evolve|decide\w*|settle)",),
    ),
    ("api.sandbox",): (  # speaks with the sandbox's own processor, which no other part of the api knows
        ("api", "projections", "ledger.operations", "ledger.gateways", *CORE, *PURE, "msgspec", "starlette"),
        (r"ledger\.\w+\.(events|evolve|decide\w*|settle)",),
    ),
}  # fmt: skip


def imports(path):
    """Every module that a file names, `from package import module` resolved to the module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                yield deeper if deeper in MODULES else node.module


def lies_in(module, places):
    return any(module == place or module.startswith(f"{place}.") for place in places)


def room_of(module):
    """The narrowest room of the table that a module lies in."""
    found = [(len(place), rooms) for rooms in ROOMS for place in rooms if lies_in(module, [place])]
    return max(found)[1] if found else None


@pytest.mark.parametrize("rooms", ROOMS, ids=lambda rooms: rooms[0])
def test_a_room_imports_only_what_it_may(rooms):
    allowed, forbidden = ROOMS[rooms]
    impure = rooms not in {CORE, PURE}
    for module, path in MODULES.items():
        if room_of(module) != rooms or WIRING.fullmatch(module):
            continue
        for imported in imports(path):
            standard = impure and imported.split(".")[0] in sys.stdlib_module_names
            assert standard or lies_in(imported, allowed), f"{module} imports {imported}"
            assert not any(re.fullmatch(rule, imported) for rule in forbidden), f"{module} imports {imported}"


def test_a_room_of_the_core_knows_only_the_terms_of_another():
    for module, path in MODULES.items():
        for own in (room for room in CORE if lies_in(module, [room])):
            for imported in imports(path):
                foreign = lies_in(imported, CORE) and not lies_in(imported, [own])
                assert not foreign or imported.endswith(".terms"), f"{module} imports {imported}"


def test_deciding_and_rendering_read_no_clock_and_draw_nothing():
    asked = re.compile(r"\b(now|utcnow|today|uuid1|uuid4|uuid7|getenv)\(|(?<![.\w])open\(")
    for module, path in MODULES.items():
        if lies_in(module, (*CORE, *PURE, "projections")):
            code = ast.unparse(ast.parse(path.read_text()))
            assert not asked.search(code), f"{module}: {asked.search(code)[0]}"


def test_only_the_wiring_knows_all_the_rooms():
    for module, path in MODULES.items():
        if lies_in(module, ["ledger"]) and not WIRING.fullmatch(module):
            for imported in imports(path):
                assert not lies_in(imported, ["api", "projections"]), f"{module} imports {imported}"


def test_sql_stays_out_of_the_api():
    sql = re.compile(
        r"\s*(select|insert into|update \w+ set|delete from|with \w+ as)\b.*\b(from|values|set)\b",
        re.IGNORECASE | re.DOTALL,
    )
    for module, path in MODULES.items():
        if lies_in(module, ["api"]):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not sql.match(node.value), f"{module}:{node.lineno}"


def test_every_module_opens_with_what_it_is():
    assert [name for name, path in MODULES.items() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_no_module_is_longer_than_a_reader_can_hold():
    long = {name for name, path in MODULES.items() if len(path.read_text().splitlines()) >= 300}
    assert long == set(LONG)
