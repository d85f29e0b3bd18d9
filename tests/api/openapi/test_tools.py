"""Linters and generators of clients accept the description. `make openapi-tools` installs them, in pinned versions."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from docs.generate import REFERENCE

ROOT = Path(__file__).parents[3]
CONFIGURATION = Path(__file__).parent / "tools"
INSTALLED = ROOT / ".openapi-tools"
DOCUMENT = str(REFERENCE / "openapi.json")
NODE, PYTHON = INSTALLED / "node_modules" / ".bin", INSTALLED / "python" / "bin"

pytestmark = pytest.mark.long


def run(program: Path, *arguments: str, cwd: Path) -> str:
    """Returns the standard output of a tool that succeeds. Skips the test where the tool is not installed."""
    if not program.is_file():
        pytest.skip(f"{program.name} is not installed: make openapi-tools installs it, where Node is installed")
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    settings = {"PATH": path, "REDOCLY_TELEMETRY": "off"}
    command = [str(program), *arguments]
    done = subprocess.run(command, env=os.environ | settings, cwd=cwd, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_redocly_has_no_warning(tmp_path: Path):
    report = run(
        NODE / "redocly",
        "lint",
        DOCUMENT,
        "--config",
        str(CONFIGURATION / "redocly.yaml"),
        "--format=json",
        cwd=tmp_path,
    )
    assert json.loads(report)["problems"] == []


def test_spectral_has_no_warning(tmp_path: Path):
    rules = str(CONFIGURATION / "spectral.yaml")
    assert json.loads(run(NODE / "spectral", "lint", DOCUMENT, "-r", rules, "-f", "json", "-q", cwd=tmp_path)) == []


def test_openapi_generator_accepts_it(tmp_path: Path):
    """It takes a schema for unused that `webhooks` alone refers to, because it reads `paths` alone."""
    said = run(PYTHON / "openapi-generator-cli", "validate", "-i", DOCUMENT, "--recommend", cwd=tmp_path)
    webhooks = json.dumps(json.loads(Path(DOCUMENT).read_text())["webhooks"])
    problems = [line.strip() for line in said.splitlines() if line.startswith("\t")]
    in_webhooks = re.findall(r"#/components/schemas/(\w+)", webhooks)
    assert set(problems) <= {f"- Unused model: {name}" for name in in_webhooks}


def test_openapi_python_client_drops_nothing(tmp_path: Path):
    program = PYTHON / "openapi-python-client"
    run(program, "generate", "--path", DOCUMENT, "--meta", "none", "--fail-on-warning", cwd=tmp_path)
