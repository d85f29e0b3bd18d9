"""`python -m campaigns [NAME [OPTION…]]`: lists the campaigns, or runs one. `NAME --help` prints the options of one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from campaigns.catalogue import CAMPAIGNS


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign that is named first and returns its exit status; without a name, lists all."""
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write(listed())
        return 0
    name, *options = arguments
    if name not in CAMPAIGNS:
        sys.stderr.write(f"there is no campaign {name!r}\n{listed()}")
        return 2
    return CAMPAIGNS[name].main()(options)


def listed() -> str:
    """Returns the list of campaigns: name, what it shows, how long it takes."""
    width = max(map(len, CAMPAIGNS))
    lines = [f"{each.name:<{width}}  {each.shows}; {each.takes}" for each in CAMPAIGNS.values()]
    return "\n".join(["python -m campaigns NAME [OPTION…]; NAME --help prints the options", "", *lines, ""])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # contexts end in order, and clean up
    sys.exit(main(sys.argv[1:]))
