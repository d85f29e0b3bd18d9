"""Schemathesis against a running service, from the description that the service itself serves.

The service runs as an installation does, with a Postgres of its own: in the same process, a hanging answer or a lost connection
would not be seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from campaigns.chaos.service import Service

PLACE = Path(__file__).parent
ROOT = PLACE.parents[1]
_UNCOVERED = """
[[operations]]
include-operation-id = "{}"
phases.coverage.enabled = false
"""


def fuzzed(arguments: Sequence[str], *, patience_s: float, uncovered: Sequence[str] = ()) -> tuple[int, str]:
    """Runs `st run` with these arguments and returns its exit status and its report: 0 if everything found is excused.

    Operations that are `uncovered`, by their operationId, are generated and linked to, but their bounds are not covered one by one.
    """
    with (
        Service(workers=1, settings={"LEDGER_SANDBOX_DELAY_MS": "0"}) as service,
        tempfile.TemporaryDirectory() as scratch,
    ):
        service.start()
        merchant = service.merchant("Fuzzed")
        variables = {
            "SCHEMATHESIS_HOOKS": "campaigns.fuzz.hooks",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "FUZZED_KEY": merchant.api_key,
            "FUZZED_MERCHANT": str(merchant.merchant_id),
        }
        config = Path(scratch) / "schemathesis.toml"
        config.write_text("\n".join([(PLACE / "schemathesis.toml").read_text(), *map(_UNCOVERED.format, uncovered)]))
        command = [str(Path(sys.executable).with_name("st")), "--config-file", str(config), "run"]
        result = subprocess.run(
            [*command, f"http://127.0.0.1:{service.port}/openapi.json", *arguments],
            env=os.environ | variables,
            cwd=scratch,
            text=True,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=patience_s,
        )
        complaints = service.complaints()
    return result.returncode or bool(complaints), "\n".join([result.stdout, *complaints])
