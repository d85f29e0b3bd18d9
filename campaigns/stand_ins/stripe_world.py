"""Serves Stripe World (PyPI `seahaven-stripe-world`), with the interpreter that has it. It prints `ready http://127.0.0.1:PORT`.

Stripe World is written for Python 3.14, whose annotations are evaluated when they are asked for. On 3.13 its modules are compiled
with annotations as text, which is what `from __future__ import annotations` would do. Import nothing of this project here: it
runs in another environment.
"""

from __future__ import annotations
import __future__

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

_PACKAGES = ("seahaven", "seahaven_stripe_world")


class DeferredAnnotations(importlib.machinery.SourceFileLoader):
    """Compiles a module with its annotations as text."""

    def get_code(self, fullname: str) -> CodeType:
        """Compiles it anew: what Python has cached was compiled without the flag."""
        path, flags = self.get_filename(fullname), __future__.annotations.compiler_flag
        code: CodeType = compile(self.get_data(path), path, "exec", flags=flags, dont_inherit=True)
        return code


class Finder(importlib.abc.MetaPathFinder):
    """Loads the modules of Stripe World by `DeferredAnnotations`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".", 1)[0] not in _PACKAGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = DeferredAnnotations(spec.loader.name, spec.loader.path)
        return spec


def main() -> None:
    """Serves until the process is ended. Each `/worlds/NAME` is an account of its own, in test mode."""
    if sys.version_info < (3, 14):
        sys.meta_path.insert(0, Finder())
    import uvicorn
    from seahaven.http import app  # type: ignore[import-not-found]
    from seahaven_stripe_world import world  # type: ignore[import-not-found]
    from seahaven_stripe_world.http_api import handle  # type: ignore[import-not-found]

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            sys.stdout.write(f"ready http://127.0.0.1:{port}\n")
            sys.stdout.flush()

    served = app(world, handle, reset_options={"startup": {"livemode": False}}, max_instances=0)
    Server(uvicorn.Config(served, host="127.0.0.1", port=0, log_level="warning", access_log=False)).run()


if __name__ == "__main__":
    main()
