"""Scenarios for every move of a subscription (the contract's table 2.3), each with a merchant of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.storefront import Merchant
from tests.api.subscriptions.billing import DECLINED_WHEN_SAVED, SUBSCRIPTIONS, made, planned, saved, subscribed
from tests.transitions.context import SANDBOX

Story = Callable[[Merchant], Awaitable[None]]

_ONE_RETRY = {"maxRetries": 1, "retryDelayHours": 1}


async def _advance(merchant: Merchant, by: str) -> None:
    await made(merchant, f"{SANDBOX}/clock", {"advanceBy": by})


async def _begun(merchant: Merchant, *, number: str | None = None, **plan: Any) -> str:
    """Returns the path of a new subscription to a plan of these terms."""
    terms = {"planId": (await planned(merchant, **plan))["id"]}
    if number is not None:
        terms["paymentMethodId"] = await saved(merchant, "ana", number)
    return f"{SUBSCRIPTIONS}/{(await subscribed(merchant, **terms))['id']}"


async def _owing(merchant: Merchant, **plan: Any) -> str:
    """Returns the path of a subscription whose trial ended with a declined charge."""
    path = await _begun(merchant, number=DECLINED_WHEN_SAVED, trialPeriodDays=1, **plan)
    await _advance(merchant, "P1DT1H")
    return path


async def _given_up(merchant: Merchant) -> str:
    """Returns the path of a subscription whose retry was declined too."""
    path = await _owing(merchant, **_ONE_RETRY)
    await _advance(merchant, "PT2H")
    return path


async def _cancel(merchant: Merchant, path: str) -> None:
    await made(merchant, f"{path}/cancel", {"atPeriodEnd": False})


async def _replace_card(merchant: Merchant, path: str, number: str = "4242424242424242") -> None:
    answer = await merchant.put(path, {"paymentMethodId": await saved(merchant, "ana", number)})
    assert answer.status_code == 200, answer.text


async def _a_trial_is_paid_and_cancelled(merchant: Merchant) -> None:
    path = await _begun(merchant, trialPeriodDays=1)
    await _advance(merchant, "P1DT1H")
    await _cancel(merchant, path)


async def _a_trial_is_cancelled(merchant: Merchant) -> None:
    await _cancel(merchant, await _begun(merchant, trialPeriodDays=1))


async def _a_renewal_is_declined_and_paid_with_another_card(merchant: Merchant) -> None:
    path = await _begun(merchant)
    await _replace_card(merchant, path, DECLINED_WHEN_SAVED)
    await _advance(merchant, "P31DT1H")
    await _replace_card(merchant, path, "5555555555554444")


async def _what_is_owed_is_cancelled(merchant: Merchant) -> None:
    await _cancel(merchant, await _owing(merchant))


async def _a_debt_is_paid_with_another_card(merchant: Merchant) -> None:
    await _replace_card(merchant, await _given_up(merchant))


async def _a_debt_is_never_paid(merchant: Merchant) -> None:
    await _given_up(merchant)
    await _advance(merchant, "P61D")


SUBSCRIPTION_STORIES: tuple[Story, ...] = (
    _a_trial_is_paid_and_cancelled,
    _a_trial_is_cancelled,
    _a_renewal_is_declined_and_paid_with_another_card,
    _what_is_owed_is_cancelled,
    _a_debt_is_paid_with_another_card,
    _a_debt_is_never_paid,
)
