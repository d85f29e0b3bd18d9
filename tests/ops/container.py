"""Builds the image, runs it, and creates a merchant in it: `python -m tests.ops.container`, as root, with buildah.

It takes minutes and needs the registry of the base image and an index of packages. Without a registry, `--base DIRECTORY`
takes the root of a Debian 12 with python3-venv, as debootstrap makes it, in the place of the base. `--volume` is passed
to the build, for a machine whose pip is configured by files.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

FILE = Path(__file__).parents[2] / "ops" / "container" / "Containerfile"
PATIENCE_S = 120.0


class Buildah:
    """buildah with a store of its own, which needs no privileges but root's."""

    def __init__(self, store: Path) -> None:
        self._options = ["--storage-driver", "vfs", "--root", f"{store}/root", "--runroot", f"{store}/run"]

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", *self._options, *arguments]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), cwd=FILE.parents[2], stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()

    def inside(self, container: str, *command: str) -> list[str]:
        options = ("--isolation", "chroot", "--user", "10001", "--env", "LEDGER_PORT=18431")
        return self.command("run", *options, container, "--", *command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--volume", action="append", default=[])
    asked = parser.parse_args()
    if shutil.which("buildah") is None:
        sys.exit("buildah is not installed: apt-get install --no-install-recommends buildah")
    store = Path(tempfile.mkdtemp(prefix="ledger-image-"))
    try:
        check(Buildah(store), store, asked.base, asked.volume)
    finally:
        shutil.rmtree(store, ignore_errors=True)


def check(buildah: Buildah, store: Path, base: Path | None, volumes: list[str]) -> None:
    file = FILE if base is None else lay_base(buildah, store, base)
    mounted = [part for volume in volumes for part in ("--volume", volume)]
    pull = ["--pull-never"] if base else []
    buildah(
        "build",
        "--isolation",
        "chroot",
        "--format",
        "docker",
        *pull,
        *mounted,
        "--file",
        str(file),
        "--tag",
        "ledger",
        ".",
    )
    image = buildah(
        "inspect",
        "--type",
        "image",
        "--format",
        "{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}}",
        "localhost/ledger",
    )
    assert "10001" in image, image
    assert "/health/ready" in image, image
    container = buildah("from", "--pull-never", "localhost/ledger")
    service = subprocess.Popen(buildah.inside(container, "ledger", "serve"))
    try:
        wait_until_ready()
        shop = subprocess.run(
            buildah.inside(container, "ledger", "merchants", "create", "My shop"),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert re.search(r"^API key +sk_test_", shop.stdout, re.MULTILINE), shop.stdout
    finally:
        stop_inside(service.pid)
        service.wait(60)
    print("the image builds, runs as its own account, is ready, and has a merchant")  # noqa: T201 - a programme


def lay_base(buildah: Buildah, store: Path, base: Path) -> Path:
    """Gives a root the name of the base image, with `python` as the base has it.

    Returns the Containerfile without the digest, which only the registry's image has.
    """
    text = re.sub(r"@sha256:[0-9a-f]{64}", "", FILE.read_text())
    name = re.search(r"^FROM (\S+)$", text, re.MULTILINE)
    assert name is not None
    container = buildah("from", "scratch")
    buildah("add", container, str(base), "/")
    buildah("run", "--isolation", "chroot", container, "--", "ln", "-sf", "/usr/bin/python3", "/usr/bin/python")
    buildah("commit", container, name[1])
    file = store / "Containerfile"
    file.write_text(text)
    return file


def wait_until_ready() -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urlopen("http://127.0.0.1:18431/health/ready") as answer:
                assert answer.status == 200
                return
        except (URLError, OSError):
            assert time.monotonic() < until, "the service did not become ready"
            time.sleep(0.5)


def stop_inside(pid: int) -> None:
    """Sends SIGTERM to the service, which is some processes of buildah below `pid`."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], stdout=subprocess.PIPE, text=True, check=True).stdout
    processes = [line.split(None, 2) for line in listed.splitlines()]
    while child := next((each for each in processes if each[1] == str(pid)), None):
        pid = int(child[0])
        if child[2].startswith("/opt/ledger/bin/python"):
            os.kill(pid, signal.SIGTERM)
            return


if __name__ == "__main__":
    main()
