"""The connections to Postgres that a service opens at most, and whether its server accepts that many.

Enter every connection of a process that runs here, by its name in the database's activity view. Give a request no
connection that is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from ledger.settings import CannotRun, Settings, api_processes

_EVERY: Final = Counter(
    {
        "ledger-writer": 1,
        "ledger-streams": 1,
        "ledger-claims": 1,
        "ledger-announcer": 1,
        "ledger-data-keys": 1,
        "ledger-ordinals": 1,
        "ledger-inbox": 1,
        "ledger-payment-names": 1,
        "ledger-vault": 1,
        "ledger-vault-changes": 1,
        "ledger-issuers": 1,
        "ledger-processor-accounts": 1,
        "ledger-account-keys": 1,
        "ledger-webhook-secrets": 1,
    }
)
_EVERY_SANDBOX: Final = Counter({"ledger-sandbox-calls": 4, "ledger-clocks": 1, "ledger-stamping": 1})
_API: Final = Counter(
    {
        "ledger-large-commits": 1,
        "ledger-reads": 1,
        "ledger-list-pages": 1,
        "ledger-lists": 4,
        "ledger-merchants": 1,
        "ledger-feed": 1,
        "ledger-numbering": 1,
        "ledger-deliveries": 1,
        "ledger-past": 1,
        "ledger-histories": 1,
        "ledger-summaries": 1,
        "ledger-log-proofs": 1,
        "ledger-audits": 1,
    }
)
# Moves of clocks take turns at two, and the jobs that fall due share a pool of four.
_API_SANDBOX: Final = Counter({"ledger-payment-names": 1, "ledger-clock": 2, "ledger-jobs": 4})
_WORKER: Final = Counter(
    {
        "ledger-open-intents": 1,
        "ledger-payers": 1,
        "ledger-search-packing": 1,
        "ledger-jobs": 5,  # a pool of four, and the listener
        "ledger-log-sealing": 1,
        "ledger-audits": 1,
        "ledger-audit": 2,  # of the process of an audit, with the one of the vault's role
        "ledger-dispatcher": 1,
        "ledger-numbering": 1,
        "ledger-due-times": 1,
        "ledger-stalled-jobs": 1,
        "ledger-listener": 1,
        "ledger-reconciliation": 1,
        "ledger-payment-names": 1,
        "ledger-read-messages": 1,
        "ledger-processor-accounts": 1,  # which merchants have any
        "ledger-feed": 1,
        "ledger-deliveries": 1,
        "ledger-delivery-outcomes": 1,
        "ledger-delivery-persons": 1,  # on Citus alone
    }
)

_REPLICA: Final = Counter(
    {"ledger-replica-use": 1, "ledger-replica-pages": 1, "ledger-replica-lists": 4, "ledger-replica-summaries": 1}
)

_SPARE: Final = 20
"""The connections that the embedded server accepts beyond the service's own: of commands, of an operator's sessions, of
a merchant's followers.
"""
_EMBEDDED_MIN: Final = 100


def api_connections(environment: str) -> Mapping[str, int]:
    """Returns the most connections of an API process in this environment, by their names."""
    return _EVERY + _API + (_EVERY_SANDBOX + _API_SANDBOX if environment == "sandbox" else Counter())


def worker_connections(environment: str) -> Mapping[str, int]:
    """Returns the most connections of a worker in this environment, by their names."""
    return _EVERY + _WORKER + (_EVERY_SANDBOX if environment == "sandbox" else Counter())


def replica_connections() -> Mapping[str, int]:
    """Returns the most connections of an API process to a replica, by their names."""
    return _REPLICA


def connections_max(settings: Settings) -> int:
    """Returns the most connections of the whole service: its API processes and one worker, wherever each runs."""
    api, worker = api_connections(settings.environment), worker_connections(settings.environment)
    return api_processes(settings) * sum(api.values()) + sum(worker.values())


def embedded_settings(settings: Settings) -> Mapping[str, str]:
    """Returns the server settings of an embedded Postgres that accepts the service's connections, and some more."""
    reserved = 3  # for superusers, by default
    return {"max_connections": str(max(_EMBEDDED_MIN, connections_max(settings) + reserved + _SPARE))}


def fit_processes(settings: Settings, allowed: int) -> Settings:
    """Returns the settings with fewer API processes if their number is `auto` and the database does not accept the
    connections of all of them.
    """
    if settings.workers != "auto":
        return settings
    numbers = range(api_processes(settings), 1, -1)
    options = (replace(settings, workers=number) for number in numbers)
    return next((option for option in options if connections_max(option) <= allowed), replace(settings, workers=1))


def require_connections(settings: Settings, allowed: int) -> None:
    """Raises CannotRun if the database, which allows `allowed`, does not accept the connections of this service."""
    needed = connections_max(settings)
    if needed > allowed:
        raise CannotRun(
            f"{api_processes(settings)} API processes (LEDGER_WORKERS) and a worker may open {needed} connections, and the database allows this "
            f"role {allowed}: raise max_connections by {needed - allowed}, or start fewer API processes"
        )
