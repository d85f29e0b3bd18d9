"""Prints fields of the JSON that it reads: `… | python3 docs/how-to/pick.py status payments.0.status`.

One name prints the bare value, for a variable. Several names print a line each, for people.
"""

import json
import sys
from typing import Any


def main() -> None:
    """Prints the named fields. Raises where the document lacks one."""
    document = json.load(sys.stdin)
    names = sys.argv[1:]
    for name in names:
        value = json.dumps(_field(document, name), ensure_ascii=False).strip('"')
        sys.stdout.write(f"{value}\n" if len(names) == 1 else f"{name}: {value}\n")


def _field(document: Any, name: str) -> Any:
    for part in name.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


if __name__ == "__main__":
    main()
