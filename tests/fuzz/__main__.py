"""`python -m tests.fuzz [ARGUMENT…]`: the long run. Arguments are those of `st run`, `--max-examples 1000` without any."""

from __future__ import annotations

import sys

from tests.fuzz.running import fuzzed

if __name__ == "__main__":
    status, report = fuzzed(sys.argv[1:] or ["--max-examples", "1000"], patience_s=7200)
    sys.stdout.write(report)
    sys.exit(status)
