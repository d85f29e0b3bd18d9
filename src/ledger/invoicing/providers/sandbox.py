"""The simulated stamping provider: checks every seal and SAT's rules, and stamps with a generated key of its own.

A stamp is recorded in the commit that answers the call, so that a look-up finds it after any crash. A call that was
begun is carried out even if its caller has given up, as with any provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from uuid import UUID, uuid4

import psycopg

from ledger.invoicing.certificates import Csd, generate_csd, load_signer
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
from ledger.invoicing.database import OnDemandConnection
from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.tasks import DetachedTasks

if TYPE_CHECKING:
    from satcfdi.models import Signer

    from ledger.invoicing.providers.seals import SealedDocument

T = TypeVar("T")

NAME: Final = "sandbox"
Mode = Literal["OK", "REFUSE", "DOWN"]

REFUSAL: Final = Refused(
    code="CFDI40145",
    message="El campo Nombre del receptor, debe pertenecer al nombre asociado al RFC registrado en el campo Rfc del "
    "Receptor.",
)
"""The answer of the mode REFUSE, unless the request gives other words."""

_CANCELLED: Final = "201"
_CANCELLED_BEFORE: Final = "202"

# How the merchant's call is treated. Counts the call.
_COUNT: Final = """
update sandbox_stamping_mode set times_left = times_left - 1
 where merchant_id = %s and mode <> 'OK' and (times_left is null or times_left > 0) returning mode, code, message
"""
_SET_MODE: Final = """
insert into sandbox_stamping_mode (merchant_id, mode, times_left, code, message) values (%s, %s, %s, %s, %s)
on conflict (merchant_id) do update
   set mode = excluded.mode, times_left = excluded.times_left, code = excluded.code, message = excluded.message
"""
# The recorded stamp of a document; xml is null if it was fenced.
_FIND: Final = "select xml, cancelled from sandbox_stamp where merchant_id = %s and document_id = %s"
# Records a stamp. Returns nothing if the document, or its seal under another id, has a row.
_RECORD: Final = """
insert into sandbox_stamp (merchant_id, document_id, fiscal_uuid, seal, xml) values (%s, %s, %s, %s, %s)
on conflict do nothing returning document_id
"""
# Refuses a document from now on. A document that is recorded keeps its stamp.
_FENCE: Final = "insert into sandbox_stamp (merchant_id, document_id) values (%s, %s) on conflict do nothing"
# The state of a stamped document, by the UUID that SAT knows it by.
_STATE: Final = "select cancelled from sandbox_stamp where merchant_id = %s and fiscal_uuid = %s"
_CANCEL: Final = """
update sandbox_stamp set cancelled = %s where merchant_id = %s and fiscal_uuid = %s and cancelled is null
"""
_KEEP_KEY: Final = "insert into sandbox_stamping_key (id, certificate, key) values (1, %s, %s) on conflict do nothing"
_KEY: Final = "select certificate, key from sandbox_stamping_key"


class SandboxProvider:
    """The simulated implementation of `contract.StampingProvider`.

    `url` is a libpq connection string. `delay_s` seconds pass between recording a call and answering it.
    """

    def __init__(self, url: str, *, delay_s: float = 0.0, late_arrival_s: float = 60.0) -> None:
        self.capabilities = ProviderCapabilities(
            name=NAME, late_arrival_s=late_arrival_s, is_simulated=True, can_fence=True
        )
        self._database = OnDemandConnection(url, "ledger-stamping")
        self._delay_s = delay_s
        self._signer: Signer | None = None
        self._running = DetachedTasks()

    async def stop(self) -> None:
        """Finishes the calls that were begun, then disconnects."""
        await self._running.drain()
        await self._database.stop()

    async def stamp(self, request: StampRequest) -> Stamped | Refused:
        return await self._call(request.deadline_at, self._stamp(request))

    async def look_up(self, request: LookUp) -> Stamped | None:
        return await self._call(request.deadline_at, self._look_up(request))

    async def cancel(self, request: CancelRequest) -> Cancelled | CancellationPending | Refused:
        return await self._call(request.deadline_at, self._cancel(request))

    async def status(self, request: StatusRequest) -> DocumentStatus:
        return await self._call(request.deadline_at, self._status(request))

    async def set_mode(
        self, merchant_id: UUID, mode: Mode, times: int | None = None, refusal: Refused = REFUSAL
    ) -> None:
        """Sets how the merchant's next `times` calls are treated, all calls if it is None.

        The mode is durable and holds in every process. A provider that is down answers look-ups. Raises
        ProviderUnavailable.
        """
        values = (merchant_id, mode, times, refusal.code, refusal.message)
        try:
            async with self._database.transaction() as connection:
                await connection.execute(_SET_MODE, values)
        except DatabaseUnavailable as fault:
            raise ProviderUnavailable(f"the mode was not kept: {fault}") from fault

    # ---------------------------------------------------------------- one call

    async def _call(self, deadline_at: datetime, work: Coroutine[Any, Any, T | ProviderUnavailable]) -> T:
        """Carries a call out to its end, and waits for it until its deadline."""
        left_s = (deadline_at - datetime.now(UTC)).total_seconds()
        if left_s <= 0:
            work.close()
            raise ProviderUnavailable("the deadline passed before the call was sent")
        try:
            async with asyncio.timeout(left_s):
                answer = await self._running.complete(work)
                await asyncio.sleep(self._delay_s)
        except TimeoutError:
            raise ProviderTimedOut("no answer before the deadline") from None
        except (DatabaseUnavailable, psycopg.Error) as fault:
            raise ProviderTimedOut(f"the sandbox lost its database: {type(fault).__name__}") from fault
        if isinstance(answer, ProviderUnavailable):
            raise answer
        return answer

    async def _stamp(self, request: StampRequest) -> Stamped | Refused | ProviderUnavailable:
        # Imported with the first document: lxml is of no use to a process without invoices.
        from ledger.invoicing.providers.seals import ALREADY_STAMPED, add_stamp

        provider = await self._loaded_signer()
        checked = await asyncio.to_thread(_checked, request.xml)
        key = (request.merchant_id, request.document_id)
        async with self._database.transaction() as connection:
            if refusal := await self._treatment(connection, request.merchant_id):
                return refusal
            if (existing := await _one(connection, _FIND, key)) is not None:
                return _recorded(existing[0])
            if isinstance(checked, Refused):
                return checked
            fiscal_uuid = uuid4()
            xml = await asyncio.to_thread(add_stamp, checked, provider, fiscal_uuid, datetime.now(UTC))
            if await _one(connection, _RECORD, (*key, fiscal_uuid, checked.seal, xml)) is not None:
                return _read(xml)
            existing = await _one(connection, _FIND, key)
            return ALREADY_STAMPED if existing is None else _recorded(existing[0])

    async def _look_up(self, request: LookUp) -> Stamped | None:
        key = (request.merchant_id, request.document_id)
        async with self._database.transaction() as connection:
            if request.fence:
                await connection.execute(_FENCE, key)
            found = await _one(connection, _FIND, key)
        return None if found is None or found[0] is None else _read(found[0])

    async def _cancel(self, request: CancelRequest) -> Cancelled | Refused | ProviderUnavailable:
        async with self._database.transaction() as connection:
            if refusal := await self._treatment(connection, request.merchant_id):
                return refusal
            if (request.motive == "01") != (request.substituted_by is not None):
                needed = request.motive == "01"
                return Refused(
                    code="208" if needed else "209",
                    message="Folio Sustitución inválido." if needed else "Folio Sustitución no requerido.",
                )
            place = (request.merchant_id, request.fiscal_uuid)
            if await _one(connection, _STATE, place) is None:
                return Refused(code="205", message="UUID No existe.")
            done = await connection.execute(_CANCEL, (request.motive, *place))
            return Cancelled(code=_CANCELLED if done.rowcount else _CANCELLED_BEFORE)

    async def _status(self, request: StatusRequest) -> DocumentStatus:
        async with self._database.transaction() as connection:
            found = await _one(connection, _STATE, (request.merchant_id, request.fiscal_uuid))
        if found is None:
            return DocumentStatus(state="NOT_FOUND", detail="No Encontrado")
        if found[0] is None:
            return DocumentStatus(state="ACTIVE", detail="Vigente")
        return DocumentStatus(state="CANCELLED", detail="Cancelado sin aceptación")

    async def _treatment(self, connection: Connection, merchant_id: UUID) -> Refused | ProviderUnavailable | None:
        """Returns the refusal or the fault that the merchant's mode asks for. Let its transaction commit."""
        counted = await _one(connection, _COUNT, (merchant_id,))
        if counted is None:
            return None
        mode, code, message = counted
        if mode == "DOWN":
            return ProviderUnavailable("the sandbox's stamping provider is down for this merchant")
        return Refused(code=code, message=message)

    async def _loaded_signer(self) -> Signer:
        """Returns the provider's signer. The first process of an installation makes its key."""
        if self._signer is None:
            async with self._database.transaction() as connection:
                found = await _one(connection, _KEY, ())
                if found is None:
                    made = await asyncio.to_thread(_make_key)
                    await connection.execute(_KEEP_KEY, (made.certificate, made.key))
                    found = await _one(connection, _KEY, ())
            assert found is not None, "a key was kept"
            self._signer = await asyncio.to_thread(load_signer, Csd(*found))
        return self._signer


def _checked(xml: bytes) -> SealedDocument | Refused:
    """Returns a document that a provider stamps, or SAT's refusal. What only SAT's registers know is not checked."""
    from ledger.invoicing.providers.rules import check_rules
    from ledger.invoicing.providers.schema import check_structure
    from ledger.invoicing.providers.seals import check_seal

    checked = check_seal(xml)
    if isinstance(checked, Refused):
        return checked
    return check_structure(checked.root) or check_rules(checked.root) or checked


async def _one(connection: Connection, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
    return await (await connection.execute(statement.encode(), values, binary=True)).fetchone()


def _recorded(xml: bytes | None) -> Stamped | ProviderUnavailable:
    if xml is None:
        return ProviderUnavailable("the sandbox's stamping provider was asked to refuse this document")
    return _read(xml)


def _read(xml: bytes) -> Stamped:
    from ledger.invoicing.stamped_xml import stamped

    return stamped(xml)


def _make_key() -> Csd:
    return generate_csd("SPR190613I52", "SANDBOX PAC", "30001000000500003456", branch="PACSPR190613I52")
