"""Runs `ledger` commands as processes forked from one that has imported everything, because imports are most of a run.

The process that is forked must hold modules only: every command would share a connection or a thread of it.
"""

import gc
import multiprocessing
import os
import sys
from pathlib import Path

_PRELOADED = [
    "tests.cli.forked",
    "tests.cli.built",
    "ledger.wiring",
    "ledger.postgres.prepare",
    "ledger.operations.orders.history",
    "ledger.seeding.seed",
    "ledger.background.inbox.dismissal",
    "ledger.background.inbox.pending",
    "ledger.background.reconciliation.reconciler",
    "ledger.background.scheduler.failed_jobs",
    "ledger.backup.rebuild",
    "ledger.doctor",
    "ledger.operations.merchants.api_keys",
    "ledger.operations.processor_accounts.account",
    "projections.orders.operator_lookup",
    "projections.orders.pending_payouts",
    "cryptography.hazmat.primitives.kdf.hkdf",
    "pydantic.type_adapter",  # typer imports it for the first command that it runs
    "typer._adapters",  # and this one, for the first parameter
    "typer.rich_utils",  # and for each help and error
]
_FORKS = multiprocessing.get_context("forkserver")


def run(arguments, variables, folder: Path, timeout: float):
    """Runs `ledger` and returns its exit status; its output is in the files `out` and `err` of the folder."""
    _FORKS.set_forkserver_preload(_PRELOADED)
    command = _FORKS.Process(target=_main, args=(arguments, variables, os.fspath(folder)))
    command.start()
    command.join(timeout)
    if command.exitcode is None:
        command.kill()
        raise TimeoutError(f"ledger {' '.join(arguments)} did not end")
    return command.exitcode


def _main(arguments, variables, folder):
    gc.freeze()  # a collection would copy the pages of all modules
    for number, name in ((1, "out"), (2, "err")):
        descriptor = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["ledger", *arguments]
    from ledger.cli.main import main

    main()
