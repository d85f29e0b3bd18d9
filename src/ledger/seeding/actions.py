"""What a line of a story can do: register, create, charge, and what can be done with an order that is there.

The rule a stranger would break: an action is a row of the table at the end, and reads its body as HTTP would. What follows
for the ledger is decided there, never here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.domain.merchants.settings import parse_settings
from ledger.domain.merchants.state import Merchant
from ledger.domain.rejections import DuplicateExternalId, InvalidField
from ledger.operations.inputs import OrderInput
from ledger.operations.merchants import register_merchant
from ledger.operations.orders.create import charge_order, create_order
from ledger.operations.pipeline.unit_of_work import find_order
from ledger.seeding.context import (
    Action,
    LineResult,
    PlannedLine,
    RunContext,
    actor,
    local,
    merchant_id_of,
    named_order,
    outcome,
    with_fixed_id,
)
from ledger.seeding.order_actions import ORDER_ACTIONS
from ledger.seeding.scenario_file import ScenarioLine


def _register(scene: RunContext, line: ScenarioLine, merchant: Merchant | None, request_id: str) -> PlannedLine:  # noqa: ARG001 - every action's shape
    """A merchant with the settings of the body. One that is there keeps the settings that it has."""
    settings = parse_settings(_texts(line.body))

    async def tell() -> LineResult:
        key = scene.new_key()
        merchant, is_new = await register_merchant(
            scene.ledger, line.merchant, key, settings=settings, merchant_id=merchant_id_of(line.merchant)
        )
        if is_new:
            scene.keys[merchant.merchant_id] = key.secret
        return LineResult.NEW if is_new else LineResult.KNOWN

    return PlannedLine(frozenset(), tell)


def _create(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders. The same external id again, at a later time, is a further attempt to pay."""
    draft = scene.readers.create(bytes(line.body), local(line, merchant))
    if draft.payment is not None:
        draft = replace(draft, payment=with_fixed_id(scene, draft.payment, merchant, line, draft.terms.external_id))
    customer = draft.customer.id or draft.customer.external_id
    keys = {f"{merchant.merchant_id} order {draft.terms.external_id}", f"{merchant.merchant_id} customer {customer}"}

    async def tell() -> LineResult:
        try:
            return outcome(await create_order(scene.ledger, actor(merchant, request_id), draft))
        except DuplicateExternalId:
            if await _was_told(scene, line, merchant, draft):
                return LineResult.KNOWN
            raise

    return PlannedLine(frozenset(keys), tell, draft.terms.external_id)


async def _was_told(scene: RunContext, line: ScenarioLine, merchant: Merchant, draft: OrderInput) -> bool:
    """Whether an order that is closed by now was made, or paid, by this very line."""
    order = await find_order(scene.ledger, merchant.merchant_id, draft.terms.external_id)
    if draft.payment is not None and draft.payment.payment_id is not None:
        return order.has_payment(draft.payment.payment_id)
    return order.terms.at == line.at


def _charge(scene: RunContext, line: ScenarioLine, merchant: Merchant, request_id: str) -> PlannedLine:
    """POST /v2/payment-orders/{order}/charge."""
    order = named_order(line)
    draft = scene.readers.charge(bytes(line.body), local(line, merchant))
    draft = with_fixed_id(scene, draft, merchant, line, order)

    async def tell() -> LineResult:
        return outcome(await charge_order(scene.ledger, actor(merchant, request_id), order, draft))

    return PlannedLine(frozenset({f"{merchant.merchant_id} order {order}"}), tell, order)


def _texts(body: msgspec.Raw) -> dict[str, str]:
    """Settings as an operator would type them on the command line."""
    try:
        settings = msgspec.json.decode(body, type=dict[str, str | int | float | bool | list[str] | None])
    except msgspec.DecodeError as refusal:
        raise InvalidField("body", f"must be settings of a merchant: {refusal}") from None
    return {name: ",".join(value) if isinstance(value, list) else _text(value) for name, value in settings.items()}


def _text(value: str | float | bool | None) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


ACTIONS: Final[Mapping[str, Action]] = {"register": _register, "create": _create, "charge": _charge, **ORDER_ACTIONS}
