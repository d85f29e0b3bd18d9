"""`python -m campaigns fuzz [ARGUMENT…]`: the long run. Arguments are those of `st run`, `--max-examples 1000` without any."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from campaigns.fuzz.running import fuzzed


def main(arguments: Sequence[str]) -> int:
    """Runs Schemathesis and returns the exit status."""
    status, report = fuzzed(arguments or ["--max-examples", "1000"], patience_s=7200)
    sys.stdout.write(report)
    return status
