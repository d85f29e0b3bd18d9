"""The directions in which the packages may import each other, and what every module owes its reader."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from ledger.domain.streams import STREAMS as KINDS_OF_STREAM

SRC = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path for path in SRC.rglob("*.py")
}
ROOT = SRC.parent
BESIDE = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for name in ("benchmarks", "campaigns")
    for path in (ROOT / name).rglob("*.py")
}
STREAMS = tuple({".".join(stream.state.__module__.split(".")[:3]) for stream in KINDS_OF_STREAM})
PURE_STDLIB = (
    "__future__", "bisect", "calendar", "collections", "contextlib", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "itertools", "math",
    "operator", "re", "string", "types", "typing", "uuid", "zoneinfo",
)  # fmt: skip
DATABASE = tuple(
    f"ledger.postgres.{name}"
    for name in (
        "archive_state",
        "arrays",
        "connection",
        "dataloader",
        "faults",
        "pipeline",
        "registration",
        "replica",
        "replication",
        "silent_servers",
        "skip_scan",
        "distribution",
        "shards",
        "merchant_transactions",
        "merchant_reads",
    )
)
STORE = ("ledger.journal.append", "ledger.journal.inline", *DATABASE, "ledger.telemetry.metrics", "ledger.ttl_cache")
DECIDERS = r"ledger\.domain\.\w+\.(decide\b.*|commands)"

# Where the parts meet: the only modules that may know any other.
WIRING = re.compile(
    r"api\.(app|http\.dependencies)|ledger\.(wiring|doctor|audit(?!\.invariants)\b.*|background\.worker|service\.(supervisor|child_main)|seeding\b.*|cli\b.*|backup\b.*|postgres\.(prepare|embedded\..*))"
)

# package: (what it may import of ours and of others, what it may not although that is part of it)
PACKAGES = {
    ("ledger.domain",): (("ledger.domain", "ledger.personal_data", "ledger.py311_speedups", *PURE_STDLIB, "msgspec"), ()),
    ("ledger.personal_data", "ledger.py311_speedups"): ((*PURE_STDLIB, "msgspec"), ()),
    ("ledger.telemetry",): (("ledger.telemetry", "msgspec", "prometheus_client", "structlog"), ()),
    ("ledger.asgi", "ledger.call_failures", "ledger.ttl_cache", "ledger.slices", "ledger.tasks", "ledger.back_off", "ledger.month_names", "ledger.parent_process", "ledger.progress", "ledger.bounded_file"): ((), ()),
    ("ledger.tracing",): (  # with the spans of requests the only one that knows OpenTelemetry
        ("ledger.tracing", "ledger.journal.append", "ledger.journal.commit.writer", "ledger.journal.inline", "ledger.operations.context.ledger",
         "ledger.background.scheduler.jobs", "ledger.processors.contract", *DATABASE, "opentelemetry"),
        (),
    ),
    ("api.system.request_spans",): (("api.http.request", "api.http.request_metrics", "ledger.tracing.spans", "opentelemetry", "starlette"), ()),
    ("ledger.settings",): (("ledger.database_urls", "ledger.domain", "msgspec"), ()),
    ("ledger.database_urls",): (("psycopg",), ()),
    ("ledger.security",): (("ledger.bounded_file", "ledger.settings", "ledger.domain", "cryptography", "msgspec", "structlog"), ()),
    ("ledger.postgres",): (("ledger.back_off", "ledger.parent_process", "ledger.progress", "ledger.telemetry", "ledger.settings", "msgspec", "procrastinate", "psycopg", "structlog"), ()),
    ("ledger.service",): (("ledger.asgi", "ledger.back_off", "ledger.settings", "ledger.telemetry", "ledger.tasks", "httptools", "msgspec", "starlette", "structlog", "uvicorn"), ()),
    ("ledger.journal",): (
        ("ledger.journal", "ledger.domain", "ledger.personal_data", "ledger.write_once_store", *DATABASE, "ledger.slices", "ledger.telemetry", "ledger.ttl_cache", "cryptography", "msgspec",
         "psycopg", "structlog"),
        (DECIDERS,),
    ),
    ("ledger.vault",): (  # alone reads card numbers
        ("ledger.vault", "ledger.operations.context.card_vault", "ledger.journal.append", "ledger.journal.encryption",
         *DATABASE, "ledger.telemetry.metrics", "ledger.telemetry.unopened", "cryptography", "msgspec", "structlog", "uuid_utils"),
        (),
    ),
    ("ledger.recorder",): (  # the only one that knows the library
        ("ledger.recorder", "ledger.domain.streams", "ledger.journal", "ledger.postgres.arrays", "ledger.postgres.connection", "ledger.postgres.distribution", "ledger.postgres.replication", "ledger.postgres.shards", "eventsourcing", "msgspec", "psycopg", "psycopg_pool"),
        (r"ledger\.journal\.(commit\.writer|reader)",),
    ),
    ("ledger.processors",): (
        ("ledger.processors", "ledger.call_failures", "ledger.domain", "ledger.journal.encryption", *STORE, "ledger.tasks", "aiohttp", "msgspec", "psycopg", "structlog"),
        (r"ledger\.domain\.\w+\.(decide|evolve)\b.*",),
    ),
    ("ledger.invoicing",): (  # the only one that knows what builds, seals, stamps and prints CFDIs
        ("ledger.invoicing", "ledger.call_failures", "ledger.domain", "ledger.journal.encryption", *STORE, "ledger.month_names", "ledger.tasks", "ledger.write_once_store", "PIL", "cryptography", "fontTools", "lxml", "msgspec",
         "psycopg", "qrcode", "requests", "satcfdi", "structlog", "urllib3", "uuid_utils"),
        (r"ledger\.domain\.\w+\.(decide|evolve)\b.*",),
    ),
    ("ledger.notifications",): (  # the only one that knows templates and mail servers
        ("ledger.notifications", "ledger.call_failures", "ledger.month_names", "aiosmtplib", "jinja2", "msgspec", "structlog"),
        (),
    ),
    ("ledger.webhooks",): (  # the only one that connects to addresses of merchants
        ("ledger.webhooks", "ledger.domain.rejections", "ledger.journal.encryption", "ledger.postgres.connection", "ledger.tasks", "ledger.ttl_cache", "aiohttp", "msgspec",
         "yarl"),
        (),
    ),
    ("ledger.write_once_store",): (("ledger.back_off", "ledger.postgres.faults", "ledger.telemetry.metrics", "obstore", "structlog"), ()),
    ("ledger.tlog",): (
        ("ledger.tlog", "ledger.journal.codec", "ledger.journal.event_archive", "ledger.write_once_store", *DATABASE, "cryptography", "msgspec"),
        (),
    ),
    ("ledger.audit.invariants",): (("ledger.audit.invariants", "ledger.domain", "ledger.processors.bins", "ledger.processors.clabe", "ledger.processors.pan_detection"), ()),
    ("ledger.operations.context.order_numbers", "ledger.operations.orders.payment_lookup", "ledger.operations.context.clock"): (
        (*STORE, "ledger.domain", "ledger.security.permutation", "msgspec", "psycopg", "structlog"),  # each owns a table or a sequence, and nothing else of the database
        (),
    ),
    ("ledger.background",): (  # owns due times, the cursors and the queue of jobs, and the only one that knows procrastinate
        ("ledger.operations", "ledger.background", "ledger.call_failures", "ledger.journal", "ledger.processors", "ledger.back_off", "ledger.settings", "ledger.telemetry",
         "ledger.domain", "ledger.notifications", "ledger.tasks", "ledger.tlog", "ledger.ttl_cache", "ledger.webhooks", *DATABASE, "msgspec", "structlog", "psycopg", "psycopg_pool", "procrastinate", "uuid_utils"),
        (r"ledger\.journal\.commit\.(?!notifier).*",),
    ),
    ("ledger.operations",): (
        ("ledger.operations", "ledger.call_failures", "ledger.journal", "ledger.processors", "ledger.invoicing", "ledger.notifications", "ledger.webhooks", "ledger.security.api_keys", "ledger.settings", "ledger.domain",
         "ledger.back_off", "ledger.postgres.faults", "ledger.telemetry.logs", "ledger.telemetry.metrics", "ledger.telemetry.unopened", "ledger.tasks", "ledger.ttl_cache", "msgspec", "structlog",
         "uuid_utils"),
        (r"ledger\.journal\.commit\..*",),
    ),
    ("projections",): (
        ("projections", "ledger.domain", "ledger.journal.event_archive", *STORE, "ledger.postgres.node_reads", "ledger.postgres.pipeline", "ledger.postgres.shards", "msgspec", "psycopg", "psycopg_pool", "uuid_utils"),
        (DECIDERS,),
    ),
    ("projections.events", "projections.as_of", "projections.histories"): (  # render from the log, as replays do
        ("projections", "ledger.domain", *STORE, "ledger.journal.event_archive", "ledger.journal.reader", "ledger.slices", "msgspec", "psycopg"),
        (DECIDERS,),
    ),
    ("api",): (
        ("api", "projections", "ledger.operations", "ledger.postgres.faults", "ledger.journal.append", "ledger.journal.event_archive", "ledger.processors.contract",
         "ledger.invoicing.catalogs", "ledger.processors.bins", "ledger.processors.messages", "ledger.processors.clabe",
         "ledger.processors.pan_detection", "ledger.processors.cvc_detection", "ledger.processors.saved_card",
         "ledger.processors.merchant_accounts", "ledger.processors.payer_returns", "ledger.processors.registry",
         "ledger.invoicing.certificates", "ledger.invoicing.contract", "ledger.invoicing.files", "ledger.invoicing.issuers", "ledger.invoicing.line_keys", "ledger.invoicing.logos",
         "ledger.invoicing.self_invoice_links", "ledger.notifications.formats",
         "ledger.security", "ledger.settings",
         "ledger.audit.page", "ledger.audit.report", "ledger.asgi", "ledger.slices", "ledger.telemetry", "ledger.tasks", "ledger.tlog", "ledger.ttl_cache", "ledger.domain", "ledger.webhooks.urls",
         "msgspec", "starlette", "structlog", "email_validator", "stdnum", "prometheus_client"),
        (r"ledger\.domain\.\w+\.(events|(evolve|decide)\b.*)",),
    ),
    ("api.sandbox",): (  # speaks with the sandbox's own processor, which no other part of the api knows
        ("api", "projections", "ledger.operations", "ledger.processors", "ledger.invoicing.contract", "ledger.invoicing.providers.sandbox",
         "ledger.domain", "msgspec", "starlette"),
        (r"ledger\.domain\.\w+\.(events|(evolve|decide)\b(?!\.guards).*)",),
    ),
}  # fmt: skip


def nodes(path, *words):
    """The syntax of a file, node by node; none if a word is missing in its text, because most files take long in vain."""
    text = path.read_text()
    return ast.walk(ast.parse(text)) if all(word in text for word in words) else ()


@cache
def imports(path):
    """Every module that a file names, `from package import module` resolved to the module."""
    found = []
    for node in nodes(path, "import"):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.append(deeper if deeper in MODULES or deeper in BESIDE else node.module)
    return found


def lies_in(module, places):
    return any(module == place or module.startswith(f"{place}.") for place in places)


def package_of(module):
    """The narrowest package of the table that a module lies in."""
    found = [(len(place), places) for places in PACKAGES for place in places if lies_in(module, [place])]
    return max(found)[1] if found else None


def circles(graph):
    """The sets of nodes that reach each other (Tarjan's algorithm)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in graph[node]:
            if to not in index:
                visit(to)
            if to in stack:
                low[node] = min(low[node], low[to])
        if low[node] == index[node]:
            place = stack.index(node)
            found.append(set(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in index:
            visit(node)
    return [circle for circle in found if len(circle) > 1]


def directory(module):
    path = MODULES.get(module) or BESIDE[module]
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


@pytest.mark.parametrize("packages", PACKAGES, ids=lambda packages: packages[0])
def test_a_package_imports_only_what_it_may(packages):
    allowed, forbidden = PACKAGES[packages]
    for module, path in MODULES.items():
        if package_of(module) != packages or WIRING.fullmatch(module):
            continue
        for imported in imports(path):
            standard = packages != ("ledger.domain",) and imported.split(".")[0] in sys.stdlib_module_names
            assert standard or lies_in(imported, (*allowed, *packages)), f"{module} imports {imported}"
            assert not any(re.fullmatch(rule, imported) for rule in forbidden), f"{module} imports {imported}"


def test_every_module_lies_in_a_package_of_the_table_or_wires():
    outside = {module for module in MODULES if package_of(module) is None and not WIRING.fullmatch(module)}
    assert outside == {"ledger"}


def test_a_stream_of_the_domain_knows_only_the_terms_of_another():
    for module, path in MODULES.items():
        for own in (stream for stream in STREAMS if lies_in(module, [stream])):
            for imported in imports(path):
                foreign = lies_in(imported, STREAMS) and not lies_in(imported, [own])
                assert not foreign or imported.endswith(".terms"), f"{module} imports {imported}"


def test_no_imports_form_a_circle():
    """Imports for types included."""
    assert circles({module: {to for to in imports(path) if to in MODULES} for module, path in MODULES.items()}) == []


@pytest.mark.parametrize("modules", [MODULES, BESIDE], ids=("src", "benchmarks and campaigns"))
def test_no_packages_import_each_other(modules):
    """Direct imports between directories, those for types included. A package and its children may."""
    graph = {directory(module): set() for module in modules}
    for module, path in modules.items():
        here = directory(module)
        for to in {directory(to) for to in imports(path) if to in modules}:
            if not lies_in(here, [to]) and not lies_in(to, [here]):
                graph[here].add(to)
    assert circles(graph) == []


def test_deciding_and_rendering_read_no_clock_and_draw_nothing():
    asked = re.compile(r"\b(now|utcnow|today|uuid1|uuid4|uuid7|getenv)\(|(?<![.\w])open\(")
    for module, path in MODULES.items():
        if lies_in(module, ["ledger.domain", "projections"]) and asked.search(path.read_text()):
            code = ast.unparse(ast.parse(path.read_text()))  # without comments, which may name it
            assert not asked.search(code), f"{module}: {asked.search(code)[0]}"


def test_only_the_wiring_knows_every_package():
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
            for node in nodes(path):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not sql.match(node.value), f"{module}:{node.lineno}"


def test_every_module_opens_with_what_it_is():
    assert [name for name, path in MODULES.items() if not ast.get_docstring(ast.parse(path.read_text()))] == []


PACKAGE_DIRS = sorted(path.parent for path in MODULES.values() if path.name == "__init__.py")


@pytest.mark.parametrize("package", PACKAGE_DIRS, ids=lambda package: ".".join(package.relative_to(SRC).parts))
def test_the_map_of_a_package_names_each_of_its_modules_and_no_other(package):
    """A map is a list: the names of one entry in backticks, a colon, and what they are."""
    entries = {each.name for each in package.iterdir() if (each / "__init__.py").exists()}
    entries |= {each.stem for each in package.glob("*.py") if each.name != "__init__.py"}
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())).replace("\n", " ")
    named = re.findall(r"((?:`\w+`,\s+)*`\w+`):", text.partition("order: ")[2] or text.partition("above it: ")[2])
    names = [name for heads in named for name in re.findall(r"\w+", heads)]
    assert sorted(names) == sorted(entries)


def test_only_the_pipeline_commits_to_the_journal():
    """A change that bypassed the unit of work would have no retry, no idempotency record and no cause."""
    callers = {
        module
        for module, path in MODULES.items()
        for node in nodes(path, "commit")
        if isinstance(node, ast.Call) and re.fullmatch(r"(.+\.)?journal\.commit", ast.unparse(node.func))
    }
    assert callers == {"ledger.operations.pipeline.unit_of_work"}


def test_only_the_pipeline_handles_a_conflict():
    """The unit of work drops the stream in conflict; the one loop in `execute` decides again."""
    catching = {
        module
        for module, path in MODULES.items()
        for node in nodes(path, "except")
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        if re.search(r"\b(Version)?Conflict\b|\bClaimTaken\b", ast.unparse(node.type))
    }
    assert catching == {"ledger.operations.pipeline.execute", "ledger.operations.pipeline.unit_of_work"}


def test_only_the_wiring_and_the_rotation_of_keys_open_the_vault():
    """Operations get a `CardVault`; no other module can make a connection of the vault's role."""
    importing = {
        module
        for module, path in MODULES.items()
        if not lies_in(module, ["ledger.vault"]) and any(lies_in(to, ["ledger.vault"]) for to in imports(path))
    }
    assert importing == {"ledger.wiring", "ledger.cli.keys"}
    naming = {module for module, path in MODULES.items() if re.search(r"\bvault_card\b", path.read_text())}
    # doctor counts under which sealing keys its rows are, and whether its role is there; a restore asks which role that is;
    # the list of tables that Citus distributes does not have it
    assert naming == {
        "ledger.audit.auditor",
        "ledger.backup.restoration",
        "ledger.vault.vault",
        "ledger.vault.rewrapping",
        "ledger.postgres.prepare",
        "ledger.postgres.distribution",
        "ledger.doctor",
    }
    users = {module for module, path in MODULES.items() if "database_vault_url" in path.read_text()}
    assert users == {
        "ledger.settings",
        "ledger.postgres.prepare",
        "ledger.wiring",
        "ledger.cli.keys",
        "ledger.audit.auditor",  # compares whose numbers are there with the log
        "ledger.backup.restoration",
        "ledger.doctor",  # opens a connection to check that the role can log in, and closes it
    }
