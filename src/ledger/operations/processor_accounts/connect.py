"""Connects an account with a processor, changes it, or connects it again.

Ask the processor before anything is stored, and store the keys before the event that names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import UUID

from msgspec import Struct

from ledger.domain.processor_accounts.commands import ConnectAccount
from ledger.domain.processor_accounts.decide import decide_connect, require_processor, require_reference
from ledger.domain.processor_accounts.methods import MethodLimit, limited
from ledger.domain.processor_accounts.state import ProcessorAccount, account_id
from ledger.domain.processor_accounts.terms import AccountMode, AccountTerms
from ledger.domain.rejections import InvalidField, ProcessorAccountLimitReached, ProcessorKeyRefused, refuse_fields
from ledger.domain.streams import PROCESSOR_ACCOUNTS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.processor_accounts.account import accounts_of, load_account
from ledger.operations.processor_accounts.check import keys_of
from ledger.operations.processor_accounts.words import without_secrets
from ledger.postgres.faults import Fault
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.merchant_accounts import ACCOUNTS_MAX, MerchantAccounts
from ledger.processors.registry import AccountFacts, AccountKeys, AccountKind, KeyRefused, KeysUnchecked


class ConnectInput(Struct, frozen=True, kw_only=True):
    """A request to connect an account. `methods` limits what the account takes; None leaves all of it."""

    processor: str
    keys: AccountKeys
    publishable_key: str | None = None
    methods: Sequence[MethodLimit] | None = None


class ConnectResult(Struct, frozen=True, kw_only=True):
    """The connected account, and whether it is new."""

    account: ProcessorAccount
    is_new: bool


async def connect_account(ledger: Ledger, actor: Actor, name: str, request: ConnectInput) -> ConnectResult:
    """Connects the merchant's account with this name once its processor has accepted the keys, and returns it.

    The same request again changes nothing. Raises InvalidField for the processor, its keys and the methods;
    ProcessorAccountExists, ProcessorAccountLimitReached, ProcessorKeyRefused, ConcurrentUpdate; KeysUnchecked if
    the processor does not answer; a Fault.
    """
    return await ledger.complete(_connect(ledger, actor, name, request))


async def _connect(ledger: Ledger, actor: Actor, name: str, request: ConnectInput) -> ConnectResult:
    accounts = accounts_of(ledger)
    kind = _kind(accounts, request)
    uow = UnitOfWork(ledger, actor)
    before = await load_account(uow, name)
    require_processor(before, request.processor)
    await _require_room(accounts, uow, before)
    facts = await _checked(ledger, accounts, kind, request.keys)
    await _require_own_publishable_key(ledger, kind, request, before)
    methods = limited(facts.methods, request.methods)
    stream_id = account_id(uow.merchant_id, name)
    kept: UUID | None = None
    seen: ProcessorAccount | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal kept, seen
        seen = await load_account(uow, name)
        require_reference(seen, facts.reference)
        secret_id = await _present_secret(uow, seen, request.keys)
        if secret_id is None and kind.takes_keys:
            if kept is None:
                kept = await accounts.keys.keep(uow.merchant_id, stream_id, request.keys)
            secret_id = kept
        command = ConnectAccount(
            account_id=stream_id,
            name=name,
            processor=kind.name,
            terms=AccountTerms(
                mode=facts.mode,
                methods=methods,
                country=facts.country,
                publishable_key=request.publishable_key,
                secret_id=secret_id,
                reference=facts.reference or (None if seen is None else seen.terms.reference),
            ),
            at=uow.now,
        )
        events = decide_connect(seen, command)
        is_as_before = not events and seen is not None and seen.is_built_in
        change = uow.absence(stream_id) if is_as_before else uow.change(PROCESSOR_ACCOUNTS, stream_id, events)
        return Plan(changes=[change])

    plan = await execute(uow, attempt)
    if not plan.events:
        assert seen is not None, "a new account has events"
        return ConnectResult(account=seen, is_new=False)
    account: ProcessorAccount = plan.changes[0].after
    await _destroy_others(accounts, uow.merchant_id, seen, account)
    return ConnectResult(account=account, is_new=seen is None)


def _kind(accounts: MerchantAccounts, request: ConnectInput) -> AccountKind:
    """Returns the processor of a request with keys of its form. Raises InvalidField."""
    kind = accounts.kinds.get(request.processor)
    if kind is None:
        known = ", ".join(accounts.kinds)
        raise InvalidField("processor", f"is unknown; use {known}")
    refuse_fields([*_key_problems(accounts, kind, request.keys), *_publishable_key_problems(accounts, kind, request)])
    return kind


def _key_problems(accounts: MerchantAccounts, kind: AccountKind, keys: AccountKeys) -> Iterator[InvalidField]:
    if keys.secret_key is None:
        if kind.takes_keys:
            yield InvalidField("secretKey", "is required", "REQUIRED")
    elif problem := kind.key_problem(keys.secret_key) or _mode_problem(accounts, kind.mode_of(keys.secret_key)):
        yield InvalidField("secretKey", problem)
    for at, secret in enumerate(keys.webhook_secrets):
        if problem := kind.webhook_secret_problem(secret):
            yield InvalidField(f"webhookSecrets[{at}]", problem)


def _publishable_key_problems(
    accounts: MerchantAccounts, kind: AccountKind, request: ConnectInput
) -> Iterator[InvalidField]:
    key, keys = request.publishable_key, request.keys
    if key is None:
        return
    problem = kind.publishable_key_problem(key) or _mode_problem(accounts, kind.mode_of(key))
    secret = None if keys.secret_key is None or kind.key_problem(keys.secret_key) else keys.secret_key
    if problem is None and key in (secret, *keys.webhook_secrets):
        problem = "must not be a secret: everyone can read it"
    if problem is not None:
        yield InvalidField("publishableKey", problem)


def _mode_problem(accounts: MerchantAccounts, mode: AccountMode) -> str | None:
    if mode is accounts.mode:
        return None
    if accounts.mode is AccountMode.TEST:
        return "is a live key, and the sandbox moves no money: use a test key"
    return "is a test key, and production takes live keys: use a live key"


async def _require_room(accounts: MerchantAccounts, uow: UnitOfWork, before: ProcessorAccount | None) -> None:
    """Raises ProcessorAccountLimitReached for a new account beyond the limit, which requests at once may exceed."""
    if before is not None:
        return
    accounts.forget(uow.merchant_id)
    if len(await accounts.stored(uow.merchant_id)) >= ACCOUNTS_MAX:
        raise ProcessorAccountLimitReached(
            f"The merchant has {ACCOUNTS_MAX} accounts with processors, the most that it may have: "
            "change one of them by its name."
        )


async def _checked(ledger: Ledger, accounts: MerchantAccounts, kind: AccountKind, keys: AccountKeys) -> AccountFacts:
    """Returns what the processor answers about the account of these keys."""
    try:
        facts = await kind.check(keys, ledger.call_deadline())
    except KeyRefused as refused:
        words = without_secrets(refused.words, keys)
        raise ProcessorKeyRefused(f"The processor refuses the key: {words}", field="secretKey") from None
    except (ProcessorUnavailable, ProcessorTimedOut):
        raise KeysUnchecked from None
    problem = _mode_problem(accounts, facts.mode)
    if problem is not None:
        raise InvalidField("secretKey", problem)
    return facts


async def _require_own_publishable_key(
    ledger: Ledger, kind: AccountKind, request: ConnectInput, before: ProcessorAccount | None
) -> None:
    """Raises InvalidField for a publishable key of another account, whose tokens this account could not charge.

    The key that the account has already is not asked about again.
    """
    key = request.publishable_key
    if key is None or (before is not None and before.terms.publishable_key == key):
        return
    try:
        problem = await kind.publishable_key_mismatch(key, request.keys, ledger.call_deadline())
    except (ProcessorUnavailable, ProcessorTimedOut):
        raise KeysUnchecked from None
    if problem is not None:
        raise InvalidField("publishableKey", problem)


async def _present_secret(uow: UnitOfWork, account: ProcessorAccount | None, keys: AccountKeys) -> UUID | None:
    """Returns the id of the stored keys if they are these. The commit checks that they are still the account's."""
    if account is None or account.terms.secret_id is None:
        return None
    return account.terms.secret_id if await keys_of(uow.ledger, account, uow) == keys else None


async def _destroy_others(
    accounts: MerchantAccounts, merchant_id: UUID, before: ProcessorAccount | None, after: ProcessorAccount
) -> None:
    """Destroys the keys that were replaced. If that fails, the next change of the account after a day does it."""
    replaced, present = None if before is None else before.terms.secret_id, after.terms.secret_id
    if present is not None and replaced != present:
        with suppress(Fault):
            await accounts.keys.destroy(merchant_id, after.account_id, replaced, present)
