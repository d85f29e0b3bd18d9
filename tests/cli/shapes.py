"""The shapes of what commands print with `--json`, as the reference describes them."""

import re

import typer.main

from ledger.cli.main import app


def leaves(command=None, path=()):
    """Yields every command of `ledger` with the words that name it."""
    command = typer.main.get_command(app) if command is None else command
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from leaves(child, (*path, name))


def described(command):
    """Returns the help of a command's `--json`; None if it has no such option."""
    return next((option.help for option in command.params if "--json" in option.opts), None)


def require_shape(arguments, printed):
    """Fails if a command has printed an object with other members than its help describes for any object."""
    words = [str(argument) for argument in arguments]
    command = next(command for path, command in leaves() if list(path) == words[: len(path)])
    known = [set(re.split(r",\s*", members)) for members in re.findall(r"\{([^{}]*)\}", described(command))]
    for item in printed if isinstance(printed, list) else [printed]:
        assert item is None or set(item) in known, f"{words}: {sorted(item)} is not in {described(command)}"
