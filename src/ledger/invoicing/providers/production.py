"""The stamping provider of production: one of satcfdi's, with every call in a thread, and SAT's own report of states.

Never run satcfdi's calls on the event loop: they block. A thread ends at its call's deadline, as its request does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar

import structlog
from satcfdi.pacs import Environment
from satcfdi.pacs.sat import SAT

from ledger.invoicing.contract import (
    CancellationPending,
    Cancelled,
    CancelRequest,
    DocumentStatus,
    LookUp,
    ProviderCapabilities,
    ProviderTimedOut,
    ProviderUnavailable,
    Refused,
    Stamped,
    StampRequest,
    StatusRequest,
)
from ledger.invoicing.providers.finkok import FinkokPac
from ledger.invoicing.providers.pac import Pac, VerbatimCfdi
from ledger.invoicing.providers.sw_sapien import SwSapienPac
from ledger.invoicing.providers.transport import Transport
from ledger.invoicing.stamped_xml import parse

T = TypeVar("T")

_log = structlog.get_logger()

LATE_ARRIVAL_S: Final = 120.0
_THREADS: Final = 8
_GRACE_S: Final = 2.0
"""How long after its deadline the caller waits for a call: the thread ends by itself, and a late answer may still be
valid.
"""


class _Sat(SAT):  # type: ignore[misc] # satcfdi has no types
    """satcfdi's client of SAT's query for one call, which keeps the deadline."""

    def __init__(self, transport: Transport, environment: Environment, url: str) -> None:
        super().__init__(environment=environment)
        self._transport, self._url = transport, url

    def _request(self, soap_url: str, data: Any, soap_action: str, **_: Any) -> Any:
        url = f"{self._url}/ConsultaCFDIService.svc" if self._url else soap_url
        headers = {"content-type": "text/xml; charset=utf-8", "soapaction": soap_action}
        return parse(self._transport.post(url, headers=headers, data=data.encode()).body)


class ProductionProvider:
    """The implementation of `contract.StampingProvider` over a provider's blocking calls. `sat_url` is for tests."""

    def __init__(self, name: str, pac: Pac, *, is_production: bool, sat_url: str = "") -> None:
        self.capabilities = ProviderCapabilities(name=name, late_arrival_s=LATE_ARRIVAL_S)
        self._pac, self._sat_url = pac, sat_url
        self._environment = Environment.PRODUCTION if is_production else Environment.TEST
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="stamping")

    async def stop(self) -> None:
        """Waits for the calls that were begun."""
        await asyncio.to_thread(self._threads.shutdown)

    async def stamp(self, request: StampRequest) -> Stamped | Refused:
        return await self._in_thread(
            request.deadline_at,
            lambda: self._pac.stamp(request.xml, str(request.document_id), request.deadline_at),
        )

    async def look_up(self, request: LookUp) -> Stamped | None:
        return await self._in_thread(
            request.deadline_at,
            lambda: self._pac.look_up(request.xml, str(request.document_id), request.deadline_at),
        )

    async def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused:
        return await self._in_thread(request.deadline_at, lambda: self._pac.cancel(request))

    async def status(self, request: StatusRequest) -> DocumentStatus:
        """Asks SAT itself: it knows of a cancellation that its receiver accepted."""
        sat = _Sat(Transport(request.deadline_at), self._environment, self._sat_url)
        report = await self._in_thread(request.deadline_at, lambda: sat.status(VerbatimCfdi.of(request.xml)))
        return _status_of(report)

    async def _in_thread(self, deadline_at: datetime, call: Callable[[], T]) -> T:
        """Runs a call in a thread. Raises ProviderUnavailable, and ProviderTimedOut for any other failure."""
        left_s = (deadline_at - datetime.now(UTC)).total_seconds()
        if left_s <= 0:
            raise ProviderUnavailable("the deadline passed before the call was sent")
        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            async with asyncio.timeout(left_s + _GRACE_S):
                return await asyncio.shield(running)
        except TimeoutError:
            running.add_done_callback(lambda done: done.cancelled() or done.exception())  # no caller waits any more
            raise ProviderTimedOut("no answer before the deadline") from None
        except (ProviderTimedOut, ProviderUnavailable):
            raise
        except Exception as failure:  # satcfdi raises exceptions of any kind for an unreadable answer
            _log.warning("stamping_answer_unreadable", reason=type(failure).__name__)
            raise ProviderTimedOut(f"the provider's answer is unreadable: {type(failure).__name__}") from failure


def open_provider(
    name: Literal["finkok", "sw-sapien"], *, user: str, secret: str, is_production: bool, url: str = ""
) -> ProductionProvider:
    """Returns a provider by its name. `secret` is Finkok's password or SW sapien's token."""
    pac: Pac
    if name == "finkok":
        pac = FinkokPac(user, secret, is_production=is_production, url=url)
    else:
        pac = SwSapienPac(secret, is_production=is_production, url=url)
    return ProductionProvider(name, pac, is_production=is_production, sat_url=url)


def _status_of(report: dict[str, str | None]) -> DocumentStatus:
    """Converts SAT's report (Estado, EstatusCancelacion) to the contract's."""
    state, cancellation = report.get("Estado") or "", report.get("EstatusCancelacion") or ""
    detail = " ".join(part for part in (state, cancellation) if part)
    if state == "Cancelado":
        return DocumentStatus(state="CANCELLED", detail=detail)
    if state == "Vigente":
        words = cancellation.lower()
        if words.startswith("solicitud rechazada"):
            return DocumentStatus(state="CANCELLATION_REFUSED", detail=detail)
        pending = words.startswith("en proceso")
        return DocumentStatus(state="CANCELLATION_PENDING" if pending else "ACTIVE", detail=detail)
    return DocumentStatus(state="NOT_FOUND", detail=detail)
