"""The SQL of other event stores, from their npm packages, which the person who measures has installed.

Never copy a peer's SQL into this project: it has its own authors, licence and releases.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final, LiteralString, cast

import psycopg

from benchmarks.load.peers import MESSAGE_DB_PATH

MESSAGE_DB: Final = "@eventide/message-db@1.3.1"
"""MIT licence, by The Eventide Project; its SQL calls itself 1.3.0."""
EMMETT: Final = "@event-driven-io/emmett-postgresql@0.42.0"
"""By Oskar Dudycz and contributors; the package states no licence."""

_MESSAGE_DB_PARTS: Final = ("schema", "types", "tables", "functions", "indexes")
_PRINT_EMMETT: Final = "import(process.argv[1]).then((emmett) => console.log(JSON.stringify(emmett.schemaSQL)))"


def install_message_db(url: str, modules: Path) -> str | None:
    """Creates message-db's schema, without roles; returns why it cannot, or None. `modules` is a node_modules folder.

    Its extension pgcrypto is left out: PostgreSQL has had the one function of it that is used since 13.
    """
    folder = modules / "@eventide/message-db/database"
    if not folder.is_dir():
        return _missing(MESSAGE_DB, modules)
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={MESSAGE_DB_PATH}") as connection:
        for part in _MESSAGE_DB_PARTS:
            for file in sorted((folder / part).glob("*.sql")):
                connection.execute(file.read_bytes())
    return None


def install_emmett(url: str, modules: Path) -> str | None:
    """Creates Emmett's schema as its package does; returns why it cannot, or None. Node prints the statements."""
    module = modules / "@event-driven-io/emmett-postgresql/dist/index.js"
    if not module.is_file():
        return _missing(EMMETT, modules)
    node = shutil.which("node")
    if node is None:
        return "not measured: node is not on the path"
    printed = subprocess.run(
        [node, "--input-type=module", "--eval", _PRINT_EMMETT, module.as_uri()],
        capture_output=True,
        text=True,
        check=False,
    )
    if printed.returncode:
        return f"not measured: node failed: {' '.join(printed.stderr.split())[-200:]}"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in json.loads(printed.stdout):
            connection.execute(cast("LiteralString", statement))
    return None


def _missing(package: str, modules: Path) -> str:
    return f"not measured: run `npm install --prefix {modules.parent} {package}` and pass --node-modules {modules}"
