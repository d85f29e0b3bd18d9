"""The dashboard's queries are valid. `python -m tests.ops.dashboard` asks a Prometheus for the answer to each of them."""

import json
import shutil
import subprocess

import pytest
from tests.ops.dashboard import DASHBOARD, filled_in


def test_each_query_of_the_dashboard_is_valid(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [filled_in(target["expr"]) for panel in panels for target in panel["targets"]]
    assert not [query for query in queries if "$" in query]
    rules = [{"record": f"panel:query{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", tmp_path / "queries.yml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
