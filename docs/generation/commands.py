"""`cli.md`: every command with its arguments and options, from the command line itself.

A command is described by its own help text. A sentence that is missing here is missing in `ledger --help` too, and belongs
there.
"""

from collections.abc import Iterator
from typing import Any

import typer.main
from docs.generation.markdown import block, code, table
from docs.generation.markdown import page as markdown_page

from ledger.cli.main import app

_INTRO = """
`make` installs the command in `.venv/bin/ledger`. Commands that touch the database take `--data-dir` or
`LEDGER_DATABASE_URL`. While `ledger serve` runs on a data directory, the others use its Postgres; otherwise they start one
for as long as they need it.

A command that fails prints the reason in one line on standard error and exits 1. `ledger COMMAND --help` prints the text
of this page. A misspelt command or option is answered with those that look like it, and wrong usage exits 2.

## Output for programs

Every command has `--json`. It prints one JSON value on standard output, with names in camelCase and times in ISO 8601;
the table of each command has its members. `{a, b}` is an object with these members, `[{a, b}]` a list of such objects.
`ledger serve`, `api` and `worker` print a line and go on running, `ledger events follow` prints a line for each event. A
command that cannot run prints no JSON. `doctor`, `reconcile`, `restore`, `messages fetch` and `processors check` print it
and exit 1 if they have found something wrong. `audit` and `rebuild --check` exit 1 then too, and 2 if they cannot run. A
member is never removed or renamed within a major version, and new ones may come: ignore what you do not know.

## Who makes a change

Commands that append events take `--by` and `--reason`, which the log keeps beside each event as its operator. `ledger
replay` shows the name in the column `by`, and `--json` has `operator` as {name, command, reason}. What cannot be undone is
asked on a terminal; without one it needs `--yes`. The times of these events are those of the machine: a command warns if its
clock is more than five seconds from the database's.

## Completion by the shell

`ledger --install-completion` completes commands and options in bash, zsh and fish for your account. For all accounts,
write the script that `ledger` prints, with `zsh` or `fish` in the place of `bash` for these:

```sh by-hand
_LEDGER_COMPLETE=source_bash ledger > /etc/bash_completion.d/ledger
```
"""


def page() -> str:
    """Returns the page as it should be."""
    parts = [_section(path, command) for path, command in _commands("ledger", typer.main.get_command(app))]
    return markdown_page("Command line", _INTRO, *parts)


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yields every command below a group, alphabetical within its group, groups last."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in sorted(children.items(), key=lambda item: (hasattr(item[1], "commands"), item[0])):
        yield from _commands(f"{path} {name}", child)


def _section(path: str, command: Any) -> str:
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and not p.hidden]
    usage = " ".join([path, *(_metavar(p) for p in arguments), *(f"[{_spelled(p)}]" for p in options)])
    help_ = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    rows = [(code(_metavar(p)), p.help or "", "") for p in arguments]
    rows += [(code(_spelled(p)), p.help or "", _default(p)) for p in options]
    return "\n\n".join([f"## {path}", help_, block(usage), table(("", "meaning", "default"), rows) if rows else ""])


def _spelled(parameter: Any) -> str:
    if parameter.is_flag:
        return "/".join([*parameter.opts, *parameter.secondary_opts])
    return f"{parameter.opts[0]} {parameter.metavar or parameter.name.upper()}{'…' if parameter.multiple else ''}"


def _metavar(parameter: Any) -> str:
    name = f"{parameter.metavar or parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}"
    return name if parameter.required else f"[{name}]"


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.is_flag or parameter.default in (None, ()):
        return ""
    return str(parameter.default)
