"""Runs `python -m benchmarks`."""

from __future__ import annotations

import sys

import typer

from benchmarks.command import bench
from ledger.settings import CannotRun

try:
    typer.run(bench)
except CannotRun as reason:
    sys.stderr.write(f"benchmarks: {reason}\n")
    sys.exit(1)
