"""Fields of other APIs that move money or limit a key there, and what this API has in their place.

Refuse them in every body. A request that was written for another API would otherwise be accepted without the hold, the
discount, the split or the limit that its author counts on. Advise no field that the request at hand lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct


class Advice(Struct, frozen=True):
    """What to do instead of a foreign field, in a request that has all of these fields. A path names a field of one."""

    text: str
    fields: tuple[str, ...] = ()


def _advice(*, otherwise: str, **by_field: str) -> tuple[Advice, ...]:
    """Returns advice for requests with a field, the first that fits counts, and for all others."""
    return *(Advice(text, tuple(fields.split("__"))) for fields, text in by_field.items()), Advice(otherwise)


_LEAVE_OUT: Final = "leave it out"

_HOLD: Final = _advice(
    captureMethod='set captureMethod to "MANUAL" and call POST …/capture later',
    otherwise="captureMethod decides it, and is set when an order is created",
)
_PART: Final = _advice(
    final__amount="send amount, the part to capture",
    otherwise="a part is captured by POST …/capture of an order",
)
_FINAL: Final = _advice(
    final="send final", otherwise="the last capture is made by POST …/capture of an order, with final"
)
_UNITS: Final = _advice(
    lineItems__amount="send lineItems[].quantity, and in amount what is to be paid",
    interval__amount="send in amount what all units of a period cost",
    planId="a subscription charges the amount of its plan once a period: choose a plan with the amount of all units",
    amount="send in amount what all units cost",
    otherwise=f"nothing is counted in units here, so {_LEAVE_OUT}",
)
_PRICE: Final = _advice(
    unitPrice="send unitPrice in minor units",
    lineItems__amount="send amount in minor units, and lineItems[].unitPrice",
    planId="send planId: the plan has the amount",
    amount="send amount in minor units",
    otherwise=f"orders and plans have the amounts, so {_LEAVE_OUT}",
)
_DISCOUNT: Final = _advice(
    lineItems__amount="send in amount what is left to pay",
    interval__amount="send in amount what is left to pay for a period",
    planId="choose a plan with the reduced amount",
    otherwise=f"the amount of an order or a plan is what is left to pay, so {_LEAVE_OUT}",
)
_TIP: Final = _advice(
    lineItems__amount="add the tip to amount",
    otherwise="an order's amount includes the tip, and is set when the order is created",
)
_SHIPPING: Final = _advice(
    lineItems__amount="add it to amount, and as an entry to lineItems",
    otherwise="an order's amount includes it, and is set when the order is created",
)
_TAX: Final = _advice(
    lineItems="amount includes every tax, and lineItems[].taxes states them for the invoice",
    taxes="amount includes every tax, and taxes states them for the invoice",
    otherwise="amounts include every tax",
)
_SPLIT: Final = _advice(otherwise="the whole amount is the merchant's")
_INSTALMENTS: Final = _advice(
    paymentMethod__amount="send paymentMethod.installments, the number of months: 3, 6, 9, 12, 18 or 24",
    otherwise="paymentMethod.installments of a payment by card has the number of months",
)


_STAMPED: Final = "fiscalConfig"
"""The receiver in a request to stamp, which takes the names of an order's receiver as well."""


def _receiver(field: str) -> tuple[Advice, ...]:
    all_fields = "with taxId, legalName, taxSystem, cfdiUse and zipCode"
    of = {field: f"send {field}"}
    of |= {f"complementIds__{_STAMPED}": f"send {_STAMPED}, {all_fields}"}
    of |= {name: f"send {name}, {all_fields}" for name in ("customerFiscalData", "fiscalData")}
    return _advice(
        **of, otherwise=f"customerFiscalData of an order, or fiscalData of its customer, has the receiver, {all_fields}"
    )


_OF_CUSTOMER: Final = (Advice("send fiscalData", ("fiscalData",)),)
_SAVE: Final = _advice(
    isDefault__paymentMethod=f"this operation saves the card in any case, so {_LEAVE_OUT}",
    persist="set persist",
    **{"paymentMethod.persist": "set paymentMethod.persist"},
    otherwise="a card is saved by a payment with paymentMethod.persist, or by POST /customers/{id}/payment-methods",
)
_CARD: Final = _advice(
    paymentMethodId="send paymentMethodId",
    isDefault="send isDefault",
    **{
        "paymentMethod.paymentMethodId": 'send paymentMethod.paymentMethodId, with paymentMethod.type "payment_method_id"',
    },
    otherwise="a saved card becomes its customer's default by PUT /payment-methods/{id} with isDefault",
)
_PERIOD: Final = _advice(
    startDate="send startDate or trialEnd: the periods are counted from it",
    otherwise="a subscription counts its periods from startDate, or from trialEnd, of its creation",
)
_TRIAL: Final = _advice(
    trialEnd="send trialEnd, or choose a plan with trialPeriodDays",
    otherwise="a trial is set by trialPeriodDays of a plan, or by trialEnd when a subscription is created",
)
_END: Final = _advice(
    dueDate="send dueDate, or cancel the order by POST …/cancel",
    otherwise="an order has a dueDate when it is created, and is cancelled by POST …/cancel",
)
_FEE: Final = (Advice("charge it by an order of its own", ("interval",)),)
_DAYS: Final = (Advice("send trialPeriodDays", ("trialPeriodDays",)), *_TRIAL)
_PRORATE: Final = (
    Advice("send prorationBehavior", ("prorationBehavior",)),
    Advice("a cancellation refunds nothing: refund the order of the last invoice", ("atPeriodEnd",)),
)
_PAUSE: Final = (Advice("a subscription is cancelled by POST …/cancel, and not paused", ("prorationBehavior",)),)
_ITEMS: Final = (Advice("send planId: a subscription has one plan", ("planId",)),)
_SCOPES: Final = (Advice("send scopes", ("scopes",)),)
_OVERLAP: Final = (Advice("send overlapSeconds", ("overlapSeconds",)),)
_CANCEL: Final = _advice(otherwise="an order and a subscription are cancelled by POST …/cancel")
_RETURN: Final = _advice(
    returnUrl="send returnUrl; after the payer's page, read what became of it by GET",
    otherwise=f"this operation leads to no page of the payer, so {_LEAVE_OUT}",
)

ADVICE: Final[Mapping[str, tuple[Advice, ...]]] = {
    "capture": _HOLD,
    "autocapture": _HOLD,
    "automaticcapture": _HOLD,
    "authorizeonly": _HOLD,
    "preauth": _HOLD,
    "preauthorization": _HOLD,
    "amounttocapture": _PART,
    "finalcapture": _FINAL,
    "quantity": _UNITS,
    "unitamount": _PRICE,
    "unitprice": _PRICE,
    "coupon": _DISCOUNT,
    "couponcode": _DISCOUNT,
    "promotioncode": _DISCOUNT,
    "discount": _DISCOUNT,
    "discounts": _DISCOUNT,
    "discountamount": _DISCOUNT,
    "tip": _TIP,
    "tipamount": _TIP,
    "shippingamount": _SHIPPING,
    "shippingcost": _SHIPPING,
    "tax": _TAX,
    "taxamount": _TAX,
    "taxrates": _TAX,
    "applicationfee": _SPLIT,
    "applicationfeeamount": _SPLIT,
    "applicationfeepercent": _SPLIT,
    "marketplacefee": _SPLIT,
    "transferdata": _SPLIT,
    "transferamount": _SPLIT,
    "onbehalfof": _SPLIT,
    "splits": _SPLIT,
    "refundapplicationfee": _SPLIT,
    "reversetransfer": _SPLIT,
    "installments": _INSTALMENTS,
    "installmentplan": _INSTALMENTS,
    "monthlyinstallments": _INSTALMENTS,
    "mesessinintereses": _INSTALMENTS,
    "msi": _INSTALMENTS,
    "rfc": _receiver("taxId"),
    "taxidnumber": _receiver("taxId"),
    "taxid": _receiver("taxId"),
    "usocfdi": _receiver("cfdiUse"),
    "razonsocial": _receiver("legalName"),
    "customerfiscaldata": _OF_CUSTOMER,
    "fiscalconfig": _OF_CUSTOMER,
    "setupfutureusage": _SAVE,
    "savecard": _SAVE,
    "savepaymentmethod": _SAVE,
    "price": _PRICE,
    "priceid": _PRICE,
    "defaultpaymentmethod": _CARD,
    "billingcycleanchor": _PERIOD,
    "trialperioddays": _TRIAL,
    "trialdays": _DAYS,
    "freetrialdays": _DAYS,
    "setupfee": _FEE,
    "prorate": _PRORATE,
    "pausecollection": _PAUSE,
    "items": _ITEMS,
    "permissions": _SCOPES,
    "permission": _SCOPES,
    "roles": _SCOPES,
    "role": _SCOPES,
    "overlap": _OVERLAP,
    "cancelat": _CANCEL,
    "expiresat": _END,
    "returnurl": _RETURN,
    "successurl": _RETURN,
    "cancelurl": _RETURN,
}
"""What to do instead, by the name of the field in small letters without `_` and `-`."""


def advice_on(spelling: str, has_field: Callable[[str], bool]) -> str | None:
    """Returns what to do instead of a foreign field in a request whose fields, or their paths, `has_field` knows; None
    for any other name.
    """
    given = ADVICE.get(spelling, ())
    return next((each.text for each in given if all(map(has_field, each.fields))), None)
