"""What a harness finds in the log of a process: the errors and the database's troubles, as the service's own log writes
them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from campaigns.chaos.running import complaints, of_database
from tests.service.trees import environment

PROGRAM = """
import sys
import structlog
from ledger.telemetry.logs import configure_logs
configure_logs("info")
print("a line of Postgres", file=sys.stderr)
print('{"half a line', file=sys.stderr)
structlog.get_logger().info("began", reason='"level":"error"')
structlog.get_logger().warning("journal_head_held", merchants=["m"])
for _ in range(2):
    structlog.get_logger().error("request_failed", reason="KeyError", at=["a.py:1"])
"""


def test_the_errors_in_a_log_are_found_once_each(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with log.open("w") as stderr:
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment(), stderr=stderr, check=True)
    assert complaints(log) == ["request_failed: reason=KeyError, at=['a.py:1']"]
    assert [json.loads(line)["merchants"] for line in of_database(log)] == [["m"]]
