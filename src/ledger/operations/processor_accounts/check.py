"""Asks a processor about an account: whether it is reached, accepts the key, and what the account can take."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.processor_accounts.terms import AccountMethod, AccountMode
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.processor_accounts.account import accounts_of, find_account
from ledger.operations.processor_accounts.words import without_secrets
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable
from ledger.processors.registry import AccountKeys, KeyRefused

_NO_PROCESSOR = "This installation has no access to the processor {}."
_NO_KEYS = "The stored keys cannot be opened: send them again by PUT."
_ERASED = "The keys were erased long after the account was disconnected: connect it again by PUT, with its keys."
_REFUSED = "The processor refuses the key: {}"
_UNREACHABLE = "The processor did not answer: try again in a moment."


class AccountCheck(Struct, frozen=True, kw_only=True):
    """The answer of a processor about an account. Without one, `mode`, `country` and `methods` are those known before.

    `problems` has what is wrong, in words for people.
    """

    reachable: bool
    mode: AccountMode
    country: str | None
    methods: Sequence[AccountMethod]
    problems: Sequence[str] = ()


async def check_account(ledger: Ledger, actor: Actor, name: str) -> AccountCheck:
    """Returns what the processor answers about the merchant's account with this name. Changes nothing.

    `methods` are all that the processor takes there, those that the merchant leaves out included. Raises
    ProcessorAccountNotFound, a Fault.
    """
    uow = UnitOfWork(ledger, actor)
    account = await find_account(uow, name)
    accounts = accounts_of(ledger)
    kind = accounts.kinds.get(account.processor)
    if kind is None:
        return _unanswered(account, _NO_PROCESSOR.format(account.processor), reachable=False)
    keys = await keys_of(ledger, account, uow)
    if keys is None:
        words = _NO_KEYS if account.keys_erased_at is None else _ERASED
        return _unanswered(account, words, reachable=False)
    try:
        facts = await kind.check(keys, ledger.call_deadline())
    except KeyRefused as refused:
        return _unanswered(account, _REFUSED.format(without_secrets(refused.words, keys)), reachable=True)
    except (ProcessorUnavailable, ProcessorTimedOut):
        return _unanswered(account, _UNREACHABLE, reachable=False)
    problems = [without_secrets(problem, keys) for problem in facts.problems]
    return AccountCheck(
        reachable=True, mode=facts.mode, country=facts.country, methods=facts.methods, problems=problems
    )


async def keys_of(ledger: Ledger, account: ProcessorAccount, uow: UnitOfWork) -> AccountKeys | None:
    """Returns the keys of an account, none of them for one without keys; None if they do not open. Raises a Fault."""
    secret_id = account.terms.secret_id
    if account.keys_erased_at is not None:
        return None
    if secret_id is None:
        return AccountKeys()
    try:
        return await accounts_of(ledger).keys.open(uow.merchant_id, secret_id)
    except (KeyUnavailable, SealBroken):
        return None


def _unanswered(account: ProcessorAccount, problem: str, *, reachable: bool) -> AccountCheck:
    terms = account.terms
    return AccountCheck(
        reachable=reachable, mode=terms.mode, country=terms.country, methods=terms.methods, problems=[problem]
    )
