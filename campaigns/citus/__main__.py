"""Builds Citus into the cache of this machine. Exits 1 with one line if it cannot be built here."""

from __future__ import annotations

import sys

from campaigns.citus.build import build
from ledger.settings import CannotRun

try:
    sys.stdout.write(f"Citus is in {build().parent}\n")
except CannotRun as reason:
    sys.exit(str(reason))
