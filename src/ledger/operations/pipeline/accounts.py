"""The accounts of a merchant as operations use them: which may take a payment, and what those of an order allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final
from uuid import UUID

import structlog

from ledger.domain.orders.capabilities import AccountRules, Candidate, Rules
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.domain.processor_accounts.state import SANDBOX
from ledger.domain.rejections import ProcessorAccountKeysErased
from ledger.operations.context.ledger import Ledger
from ledger.processors.accounts import ProcessorAccount
from ledger.processors.contract import Capabilities, Processor, ProcessorUnavailable

_log = structlog.get_logger()

_DISCONNECTED: Final = "is disconnected"
_ELSEWHERE: Final = "is not the account whose token is charged"
_NO_NUMBERS: Final = "takes no card numbers: it needs a token of the card"
_KEEPS_IT_NOT: Final = "does not keep the saved card"


async def candidates(
    ledger: Ledger, merchant_id: UUID, method: MethodType, token_of: str | None = None, *, is_saved: bool = False
) -> tuple[Candidate, ...]:
    """Returns the accounts at which a payment may be made, in the order in which they are asked. Raises a Fault.

    Those whose processor does not answer come last (decision 0084).

    A card is a token of the account `token_of`, which keeps it if it `is_saved`, or one whose number the request brings
    or the vault has.
    """
    accounts = await ledger.processors.of_merchant(merchant_id)
    if token_of is None:
        accounts = _in_order(ledger, merchant_id, accounts, method)
    elsewhere = _KEEPS_IT_NOT if is_saved else _ELSEWHERE
    return tuple([_candidate(account, method, token_of, elsewhere) for account in accounts])


def _in_order(
    ledger: Ledger, merchant_id: UUID, accounts: Sequence[ProcessorAccount], method: MethodType
) -> Sequence[ProcessorAccount]:
    """Returns the accounts with those behind that do not answer payments by this method."""
    if len(accounts) < 2:
        return accounts
    return sorted(accounts, key=lambda each: _may_take(each, method) and not _admits(ledger, merchant_id, each, method))


def _may_take(account: ProcessorAccount, method: MethodType) -> bool:
    return account.is_connected and any(each.type is method for each in account.takes)


def _admits(ledger: Ledger, merchant_id: UUID, account: ProcessorAccount, method: MethodType) -> bool:
    return ledger.health.admits(merchant_id, account.name, method)


def _candidate(account: ProcessorAccount, method: MethodType, token_of: str | None, elsewhere: str) -> Candidate:
    capabilities = account.processor.capabilities
    return Candidate(
        account=account.name,
        processor=capabilities.name,
        methods=account.takes,
        refusal=_refusal(account, token_of, elsewhere)
        if method is MethodType.CARD or not account.is_connected
        else None,
        reference_s=int(capabilities.reference_validity_s),
        smallest_amount=capabilities.smallest_amount,
        needs_payer=method in capabilities.needs_payer,
    )


def _refusal(account: ProcessorAccount, token_of: str | None, elsewhere: str) -> str | None:
    """Returns why an account does not take a card, None if it does."""
    if not account.is_connected:
        return _DISCONNECTED
    if token_of is not None:
        return None if account.name == token_of else elsewhere
    return None if account.processor.capabilities.takes_card_numbers else _NO_NUMBERS


async def token_account(
    ledger: Ledger,
    merchant_id: UUID,
    names: Sequence[str],
    currency: str,
    amount: Decimal | None,
    installments: int | None = None,
) -> ProcessorAccount | None:
    """Returns the account whose token is charged: the first one of these that takes the payment, else the first one
    that takes tokens, which refuses it; None if there is none. Raises a Fault.
    """
    found = [
        account
        for account in await ledger.processors.of_merchant(merchant_id)
        if account.name in names and account.is_connected and account.processor.capabilities.takes_card_tokens
    ]
    taking = [account for account in found if _takes(account, currency, amount, installments)]
    taking = [*_in_order(ledger, merchant_id, taking, MethodType.CARD)]
    return next(iter(taking or found), None)


def _takes(account: ProcessorAccount, currency: str, amount: Decimal | None, installments: int | None) -> bool:
    cards = (each for each in account.takes if each.type is MethodType.CARD)
    plans = (each for each in cards if installments is None or installments in each.installments)
    return any(each.takes(currency, amount) for each in plans)


def count_failure(ledger: Ledger, merchant_id: UUID, account: str, method: MethodType) -> None:
    """Counts a payment that did not reach the processor of an account."""
    if ledger.health.failed(merchant_id, account, method):
        _log.warning("processor_account_down", merchant_id=str(merchant_id), account=account, method=method)


def count_answer(ledger: Ledger, merchant_id: UUID, account: str, method: MethodType) -> None:
    """Counts a payment that the processor of an account has answered."""
    if ledger.health.answered(merchant_id, account, method):
        _log.info("processor_account_up", merchant_id=str(merchant_id), account=account, method=method)


async def card_account(ledger: Ledger, merchant_id: UUID, token_of: str | None = None) -> ProcessorAccount | None:
    """Returns the first account that takes cards by number, in any amount, or `token_of` if that takes cards; None if
    the merchant has none. Raises a Fault.
    """
    for account in await ledger.processors.of_merchant(merchant_id):
        takes_cards = any(each.type is MethodType.CARD for each in account.takes)
        if takes_cards and _refusal(account, token_of, _ELSEWHERE) is None:
            return account
    return None


async def processor_of(ledger: Ledger, merchant_id: UUID, account: str) -> Processor | None:
    """Returns the processor of an account, also of a disconnected one; None if there is no such account.

    Raises a Fault, ProcessorUnavailable, ProcessorTimedOut.
    """
    shared = ledger.processors.sandbox
    if account == SANDBOX and shared is not None:  # every merchant's, whatever is stored of the account
        return shared
    found = await ledger.processors.named(merchant_id, account)
    return None if found is None else found.processor


async def rules_of(ledger: Ledger, merchant_id: UUID, order: Order) -> Rules:
    """Returns what the accounts of an order's payments allow.

    Raises like `processor_of`, and ProcessorUnavailable for an account that cannot be opened: nothing is decided by
    rules that may be others. Raises ProcessorAccountKeysErased for one whose keys were erased.
    """
    rules = {}
    for name in _accounts(order.payments):
        processor = await processor_of(ledger, merchant_id, name)
        if processor is None:
            await _require_keys(ledger, merchant_id, name)
            raise ProcessorUnavailable(f"the account {name} cannot be opened")
        rules[name] = _rules(processor.capabilities)
    return rules


async def _require_keys(ledger: Ledger, merchant_id: UUID, name: str) -> None:
    """Raises ProcessorAccountKeysErased if the keys of an account were erased."""
    stored = () if ledger.accounts is None else await ledger.accounts.stored(merchant_id)
    if any(each.name == name and each.keys_erased_at is not None for each in stored):
        raise ProcessorAccountKeysErased(
            f"The account {name} was disconnected so long ago that its keys are erased: connect it again with a key of "
            f"the same account by PUT /v1/processor-accounts/{name} to capture, cancel or refund what it has.",
        )


async def simulated_accounts(ledger: Ledger, merchant_id: UUID, names: Iterable[str]) -> frozenset[str]:
    """Returns those of these accounts that are simulated. Raises like `processor_of`."""
    found = {name: await processor_of(ledger, merchant_id, name) for name in names}
    return frozenset(name for name, each in found.items() if each is not None and each.capabilities.is_simulated)


def _accounts(payments: Iterable[Payment]) -> list[str]:
    return list(dict.fromkeys(payment.account for payment in payments if payment.account))


def _rules(capabilities: Capabilities) -> AccountRules:
    refundable = {each.type for each in capabilities.methods if each.refundable}
    return AccountRules(
        card_window_s=int(capabilities.refund_window_s),
        partial_payouts=capabilities.partial_payouts,
        simulates_payouts=capabilities.is_simulated,
        returns_to_payer=capabilities.returns_to_payer,
        releases_rest=capabilities.capture_releases_rest,
        kept=frozenset(each.type for each in capabilities.methods) - refundable,
        smallest_amount=capabilities.smallest_amount,
    )
