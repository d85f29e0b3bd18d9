"""The files for those who run the service: each is checked by its own program where that is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from operator import itemgetter
from pathlib import Path
from threading import Thread

import pytest

from ledger.telemetry.metrics import REGISTRY, AllProcesses

OPS = Path(__file__).parents[2] / "ops"
PROMETHEUS = OPS / "prometheus"
SUFFIXES = ("_bucket", "_sum", "_count", "_total")


def checked(*command, cwd=OPS):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts_are_valid_rules():
    checked("promtool", "check", "rules", "alerts.yml", cwd=PROMETHEUS)


def test_each_alert_fires_on_its_cause_and_none_without():
    checked("promtool", "test", "rules", "alerts_test.yml", "alerts_day_test.yml", cwd=PROMETHEUS)


@pytest.mark.parametrize("file", ["prometheus/alerts.yml", "prometheus/alerts_test.yml", "grafana/ledger.json"])
def test_only_metrics_that_exist_are_named(file):
    existing = {family.name for family in AllProcesses().collect()}
    named = set(re.findall(r"\bledger_[a-z_]+", (OPS / file).read_text()))
    unknown = {name for name in named if not {name, *(name.removesuffix(end) for end in SUFFIXES)} & existing}
    assert named
    assert unknown == set()


def test_the_page_about_operation_has_every_metric_that_an_alert_watches():
    page = (OPS.parent / "docs" / "how-to" / "operate.md").read_text()
    watched = set(re.findall(r"\bledger_[a-z_]+", (PROMETHEUS / "alerts.yml").read_text()))
    assert {name for name in watched if name not in page} == set()


def test_the_dashboard_has_panels_that_do_not_overlap():
    panels = json.loads((OPS / "grafana" / "ledger.json").read_text())["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


@pytest.mark.parametrize(
    "panel", json.loads((OPS / "grafana" / "ledger.json").read_text())["panels"], ids=itemgetter("title")
)
def test_a_panel_shows_the_unit_of_its_numbers(panel):
    """A graph on its axis, a single number by its unit, or in its title where it is no amount."""
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["title"]
    assert panel["description"].endswith(".")
    if panel["type"] == "timeseries":
        assert defaults["custom"]["axisLabel"]
    else:
        assert defaults["unit"] != "none" or panel["title"] in ("Version", "Journal writable (1 is yes)")


def test_the_unit_of_systemd_is_valid(tmp_path):
    """With a program that exists in the place of the installed one."""
    text = (OPS / "systemd" / "ledger.service").read_text()
    program = re.search(r"^ExecStart=(\S+) serve$", text, re.MULTILINE)[1]
    (tmp_path / "ledger.service").write_text(text.replace(program, "/bin/true"))
    checked("systemd-analyze", "verify", "--man=no", str(tmp_path / "ledger.service"))


def test_the_unit_closes_what_the_service_does_not_need():
    """Its exposure, from 0 to 10, is at most 2.0."""
    checked(
        "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
        str(OPS / "systemd" / "ledger.service"),
    )  # fmt: skip


def test_the_page_about_installing_makes_what_the_unit_and_its_command_need(tmp_path):
    """Its commands that need no package manager and no systemd, below another root."""
    page = (OPS.parent / "docs" / "how-to" / "install.md").read_text()
    steps = re.search(r"```sh by-hand\n(.*?)```", page, re.DOTALL)[1].splitlines()
    programs = [step.split()[0] for step in steps]
    assert programs[:3] == ["apt-get", "useradd", "make"]
    assert programs[-4:] == ["systemctl", "systemctl", "ledger", "ledger"]
    for folder in ("etc/systemd/system", "usr/local/sbin", "var/lib/ledger", "opt/ledger/.venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt" / "ledger" / "ops").symlink_to(OPS)
    for step in steps[3:-4]:
        here = re.sub(r"(?<= )/(?!dev/)", f"{tmp_path}/", step)
        subprocess.run(here, shell=True, check=True, cwd=tmp_path)
    unit = (tmp_path / "etc/systemd/system/ledger.service").read_text()
    needed = re.findall(r"^(?:EnvironmentFile=-|LoadCredential=\S+?:)(\S+)$", unit, re.MULTILINE)
    assert [(tmp_path / file.lstrip("/")).exists() for file in needed] == [True, True]
    key = (tmp_path / "etc/ledger/master.key").read_text()
    assert re.fullmatch("[0-9a-f]{64}", key)
    data_dir = re.search(r"^Environment=(LEDGER_DATA_DIR=\S+)$", unit, re.MULTILINE)[1]
    assert f"--setenv={data_dir} " in (OPS / "systemd" / "ledger-command").read_text()


def test_a_command_runs_as_a_unit_and_has_the_master_key_in_no_environment(tmp_path):
    """A program in the place of systemd-run prints what systemd would execute, after it has replaced `$$`."""
    started, printed = tmp_path / "systemd-run", tmp_path / "key"
    started.write_text(f'#!/bin/sh\nfor given; do printf "%s\\0" "$given"; done > {printed}\n')
    started.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SUDO_USER": "ana"}
    command = ["sh", OPS / "systemd" / "ledger-command", "merchants", "create", "Café $HOME 100%"]
    subprocess.run(command, check=True, env=path)
    given = printed.read_text().removesuffix("\0").split("\0")
    end = given.index("/bin/sh")
    assert {"--uid=ledger", "--gid=ledger", "--wait", "--pipe", "--setenv=LOGNAME=ana"} <= set(given[:end])
    properties = [option.removeprefix("--property=") for option in given[:end] if option.startswith("--property=")]
    unit = (OPS / "systemd" / "ledger.service").read_text().splitlines()
    assert {"EnvironmentFile=-/etc/ledger/ledger.env", "NoNewPrivileges=yes", "UMask=0077"} < set(properties)
    assert [each for each in properties if each not in unit] == []
    assert not any("LEDGER_MASTER_KEY" in option for option in given[:end])
    executed = [re.sub(r"\$\$", "$", argument) for argument in given[end:]]
    program = tmp_path / "ledger"
    program.write_text('#!/bin/sh\necho "$LEDGER_MASTER_KEY_FILE|$LEDGER_MASTER_KEY|$3"\n')
    program.chmod(0o755)
    executed[2] = executed[2].replace("/opt/ledger/.venv/bin/ledger", str(program))
    ran = subprocess.run(executed, env={"CREDENTIALS_DIRECTORY": "/run/it"}, capture_output=True, text=True, check=True)
    assert ran.stdout == "/run/it/master.key||Café $HOME 100%\n"


def test_the_container_copies_files_that_exist_and_runs_as_an_account_of_its_own():
    text = re.sub(r"\\\n", " ", (OPS / "container" / "Containerfile").read_text())
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {name for name, _ in steps} <= known | {"ENTRYPOINT", "CMD"}
    copied = [part for name, rest in steps if name == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    assert [part for part in copied if not (OPS.parent / part).exists()] == []
    last = [name for name, _ in steps][::-1]
    assert last.index("USER") < last.index("FROM")
    for name, rest in steps:
        if name in ("ENTRYPOINT", "CMD"):
            assert json.loads(rest)
    assert dict(steps)["STOPSIGNAL"] == "SIGTERM"
    bases = {rest.split()[0] for name, rest in steps if name == "FROM"}
    assert [base for base in bases if not re.fullmatch(r"\S+:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)] == []
    assert len(bases) == 1, "both stages have the same Python"


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False)])
def test_the_container_is_healthy_while_the_service_is_ready_at_its_port(status, is_healthy):
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/health/ready" else 404)
            self.end_headers()

        def log_message(self, *_):
            """Prints nothing."""

    file = (OPS / "container" / "Containerfile").read_text()
    _, *arguments = json.loads(re.search(r"^  CMD (\[.*\])$", file, re.MULTILINE)[1])
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        answering = Thread(target=server.handle_request)
        answering.start()
        port = {"LEDGER_PORT": str(server.server_port)}
        asked = subprocess.run([sys.executable, *arguments], env=os.environ | port, capture_output=True, check=False)
        answering.join()
    assert (asked.returncode == 0) is is_healthy, asked.stderr


@pytest.mark.parametrize("file", ["prometheus/alerts.yml", "grafana/ledger.json"])
def test_only_labels_that_a_metric_has_are_named(file):
    """A misspelt label selects nothing: its panel stays empty, its alert never fires."""
    labels = {
        name: {*getattr(metric, "_labelnames", ()), "instance", "job", "le"}
        for metric, family in zip(REGISTRY._collector_to_names, AllProcesses().collect(), strict=True)
        for name in (family.name, *(family.name + end for end in SUFFIXES))
    }
    text = (OPS / file).read_text().replace('\\"', '"')
    named = re.findall(r"\b(ledger_[a-z_]+)\{([^}]*)\}", text)
    wrong = [
        (name, label)
        for name, selector in named
        for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", re.sub(r'"[^"]*"', '""', selector))
        if label not in labels[name]
    ]
    assert named
    assert wrong == []
