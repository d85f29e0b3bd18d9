"""The sandbox's payer authentications: 3-D Secure and redirects, durable from the first answer to the last.

A session holds the request that opened it, without the card. Its charge has the idempotency key of the authorisation
that opened it, so a session grants at most once.
"""

from __future__ import annotations

from decimal import Decimal
from secrets import token_urlsafe
from typing import Any, Final
from uuid import UUID, uuid4

from msgspec import Struct

from ledger.domain.money import SCALE, ZERO, scaled, shortest
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined
from ledger.domain.orders.statuses import NextAction
from ledger.postgres.connection import Connection
from ledger.processors.bins import bin_info, eci_of
from ledger.processors.contract import AuthenticationRequest, AuthorizationAnswer, AuthorizationRequest
from ledger.processors.sandbox import charge_rows, charges
from ledger.processors.sandbox.call_executor import CallEffect, CallExecutor, CallResult, fetch_one
from ledger.processors.sandbox.charge_rows import ChargeCall
from ledger.processors.sandbox.test_cards import Authentication, number_of

_VERSION: Final = "2.2.0"
# A new session.
_OPEN: Final = """
insert into sandbox_authentication (transaction_id, reference_id, access_token, merchant_id, idempotency_key, order_id,
                                    payment_id, amount, currency, card_bin, card_last4, stage, challenges, return_url,
                                    payment_method_id)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""

# A session, by its transaction id or its reference id.
_FIND: Final = """
select transaction_id, reference_id, access_token, merchant_id, idempotency_key, order_id, payment_id, amount, currency,
       card_bin, card_last4, stage, challenges, return_url, payment_method_id, accepted
  from sandbox_authentication where transaction_id = %s or reference_id = %s
"""

# The same, as a page shows it: with its merchant, and not with the book that it is in.
_SHOWN: Final = """
transaction_id, reference_id, access_token,
       coalesce((select o.merchant_id from sandbox_account o where o.book_id = s.merchant_id), s.merchant_id),
       idempotency_key, order_id, payment_id, amount, currency, card_bin, card_last4, stage, challenges, return_url,
       payment_method_id, accepted
"""
_SHOW_ONE: Final = """
select {shown} from sandbox_authentication s where transaction_id = %s or reference_id = %s
"""

# A session goes on to another stage.
_SET_STAGE: Final = "update sandbox_authentication set stage = %s where transaction_id = %s"

# The page that collects the device's data was shown.
_COLLECT: Final = """
update sandbox_authentication set device_data_at = coalesce(device_data_at, now()) where reference_id = %s
"""

# What the payer chose on the challenge's or the redirect's page. The last choice before the validation counts.
_SET_CHOICE: Final = """
update sandbox_authentication s set accepted = %s where transaction_id = %s and stage in ('CHALLENGE', 'REDIRECT')
returning {shown}
"""
_SHOW, _CONCLUDE = (statement.format(shown=_SHOWN.strip()) for statement in (_SHOW_ONE, _SET_CHOICE))

_STAGES: Final = {
    Authentication.CHALLENGE: NextAction.CHALLENGE,
    Authentication.DEVICE_DATA: NextAction.DEVICE_DATA,
    Authentication.DEVICE_DATA_THEN_CHALLENGE: NextAction.DEVICE_DATA,
    Authentication.REDIRECT: NextAction.REDIRECT,
}


class Session(Struct, frozen=True, kw_only=True):
    """A payer's authentication, as the processor's own pages show it.

    `stage` is the payer's next action, None once the session has ended. `amount` in minor units: 0 for a card that is
    verified before it is saved as `payment_method_id`.
    """

    transaction_id: str
    reference_id: str
    access_token: str
    merchant_id: UUID
    idempotency_key: str
    order_id: UUID | None
    payment_id: UUID | None
    amount: Decimal
    currency: str
    card_bin: str
    card_last4: str
    stage: NextAction | None
    challenges: bool
    return_url: str | None
    payment_method_id: UUID | None
    accepted: bool | None


class StoredAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An authorisation's answer as the executor stores it: one of these."""

    approved: Approved | None = None
    declined: Declined | None = None
    action: ActionRequired | None = None

    @property
    def answer(self) -> AuthorizationAnswer:
        answer = self.approved or self.declined or self.action
        assert answer is not None, "one of the three is set"
        return answer


class PayerPages:
    """The operations of the processor's own pages: show a session, collect device data, store the payer's choice.

    All methods raise ProcessorTimedOut and ProcessorUnavailable.
    """

    def __init__(self, executor: CallExecutor) -> None:
        self._executor = executor

    async def session(self, name: str) -> Session | None:
        """Returns a session by its transaction id or its reference id."""
        async with self._executor.connection() as connection:
            row = await fetch_one(connection, _SHOW, (name, name))
            return None if row is None else _session(*row)

    async def collect_device_data(self, reference_id: str) -> None:
        """Records that the device-data page ran in the payer's browser."""
        async with self._executor.connection() as connection:
            await connection.execute(_COLLECT, (reference_id,))

    async def conclude(self, transaction_id: str, *, accepted: bool) -> Session | None:
        """Records that the payer accepted or refused. Returns the session, or None if it does not ask him any more."""
        async with self._executor.connection() as connection:
            row = await fetch_one(connection, _CONCLUDE, (accepted, transaction_id))
            return None if row is None else _session(*row)


def open_session(request: AuthorizationRequest, authentication: Authentication, pages_url: str) -> CallEffect:
    """Returns the effect that opens a session and answers with the payer's next action."""

    async def effect(connection: Connection) -> CallResult:
        number = number_of(request.card)
        session = Session(
            transaction_id=str(uuid4()),
            reference_id=str(uuid4()),
            access_token=token_urlsafe(32),
            merchant_id=request.merchant_id,
            idempotency_key=request.idempotency_key,
            order_id=request.order_id,
            payment_id=request.payment_id,
            amount=request.amount,
            currency=request.currency,
            card_bin=number[:6],
            card_last4=number[-4:],
            stage=_STAGES[authentication],
            challenges=authentication is not Authentication.DEVICE_DATA,
            return_url=request.return_url,
            payment_method_id=request.payment_method_id,
            accepted=None,
        )
        await connection.execute(_OPEN, _row(session))
        return CallResult(StoredAnswer(action=_action(session, pages_url)))

    return effect


def submit_device_data(request: AuthenticationRequest, pages_url: str) -> CallEffect:
    """Returns the effect of collected device data: challenges the payer, or grants without a challenge."""

    async def effect(connection: Connection) -> CallResult:
        session = await _session_of(connection, request)
        if session is None or session.stage in {None, NextAction.REDIRECT}:
            return _failed(session)
        if not session.challenges:
            return await _grant(connection, session, request)
        await connection.execute(_SET_STAGE, (NextAction.CHALLENGE, session.transaction_id))
        return CallResult(StoredAnswer(action=_action(_at(session, NextAction.CHALLENGE), pages_url)))

    return effect


def validate(request: AuthenticationRequest) -> CallEffect:
    """Returns the effect of the payer's return: grants, or fails if the payer refused.

    A payer who never opened the page counts as accepting, so that a test can leave the page out.
    """

    async def effect(connection: Connection) -> CallResult:
        session = await _session_of(connection, request)
        if session is None or session.stage not in {NextAction.CHALLENGE, NextAction.REDIRECT}:
            return _failed(session)
        if session.accepted is False:
            await connection.execute(_SET_STAGE, ("ENDED", session.transaction_id))
            return _failed(session)
        return await _grant(connection, session, request)

    return effect


async def _grant(connection: Connection, session: Session, request: AuthenticationRequest) -> CallResult:
    reference, code = charges.reference_and_code(session.merchant_id, session.idempotency_key)
    captured = session.amount if request.capture else ZERO
    approved = Approved(
        authorized=session.amount,
        captured=captured,
        processor_reference=reference,
        authorization_code=code,
        eci=_eci(session, authenticated=True),
    )
    call = ChargeCall(
        merchant_id=session.merchant_id,
        idempotency_key=session.idempotency_key,
        amount=session.amount,
        currency=session.currency,
        capture=request.capture,
        card_bin=session.card_bin,
        card_last4=session.card_last4,
        reference=reference,
        answer=approved,
    )
    if session.amount > ZERO:
        await charge_rows.insert(connection, call)
    await connection.execute(_SET_STAGE, ("ENDED", session.transaction_id))
    return CallResult(StoredAnswer(approved=approved))


def _failed(session: Session | None) -> CallResult:
    message = "The payer could not be authenticated."
    eci = None if session is None else _eci(session, authenticated=False)
    return CallResult(
        StoredAnswer(declined=Declined(code="AUTHENTICATION_FAILED", message=message, eci=eci)), accepted=False
    )


def _eci(session: Session, *, authenticated: bool) -> str | None:
    """Returns the network's indicator, None for a redirect, which the issuing bank handles without the network."""
    if session.stage is NextAction.REDIRECT:
        return None
    return eci_of(bin_info(session.card_bin).brand, authenticated=authenticated)


async def _session_of(connection: Connection, request: AuthenticationRequest) -> Session | None:
    """Returns the merchant's session that a call names, None for an id that contains `fail`."""
    session = await _find(connection, request.authentication_transaction_id)
    return session if session is not None and session.merchant_id == request.merchant_id else None


async def _find(connection: Connection, name: str) -> Session | None:
    row = await fetch_one(connection, _FIND, (name, name))
    return None if row is None else _session(*row)


def _session(*row: Any) -> Session:
    values = dict(zip(Session.__struct_fields__, row, strict=True))
    stage = values["stage"]
    values["stage"] = None if stage == "ENDED" else NextAction(stage)
    values["amount"] = shortest(Decimal(values["amount"]) / SCALE)
    return Session(**values)


def _row(session: Session) -> tuple[object, ...]:
    values = [getattr(session, name) for name in Session.__struct_fields__[:-1]]
    values[Session.__struct_fields__.index("amount")] = scaled(session.amount)
    return tuple(values)


def _at(session: Session, stage: NextAction) -> Session:
    return Session(**{name: getattr(session, name) for name in Session.__struct_fields__} | {"stage": stage})


def _action(session: Session, pages_url: str) -> ActionRequired:
    assert session.stage is not None, "the session has ended and has no next action"
    device_data = f"{pages_url}/device-data/{session.reference_id}"
    step_up = {
        NextAction.CHALLENGE: f"{pages_url}/challenge/{session.transaction_id}",
        NextAction.REDIRECT: f"{pages_url}/redirect/{session.transaction_id}",
    }
    return ActionRequired(
        next_action=session.stage,
        authentication_transaction_id=session.transaction_id,
        reference_id=session.reference_id,
        device_data_collection_url=device_data if session.stage is NextAction.DEVICE_DATA else None,
        access_token=session.access_token,
        step_up_url=step_up.get(session.stage),
        three_ds_version=None if session.stage is NextAction.REDIRECT else _VERSION,
    )
