"""Fields of other payment APIs that move money there, and what this API has in their place.

Refuse them in every body. A request that was written for another API would otherwise be accepted without the hold, the
discount or the split that its author counts on.
"""

from __future__ import annotations

from typing import Final

_HOLD: Final = 'set captureMethod to "MANUAL" and call POST …/capture later'
_PART: Final = "send amount to POST …/capture"
_FINAL: Final = "send final to POST …/capture"
_DISCOUNT: Final = "send the amount that is left to pay"
_SPLIT: Final = "the whole amount is the merchant's"
_TAX: Final = "amount includes every tax, and lineItems[].taxes states them for the invoice"
_INVOICED: Final = "send customerFiscalData, with taxId, legalName, taxSystem, cfdiUse and zipCode"
_INSTALMENTS: Final = "each payment is made at once"
_SAVE: Final = "set paymentMethod.persist"
_PLAN: Final = "send planId"
_CARD: Final = "send paymentMethodId"
_RETURN: Final = "send returnUrl with the payment; after the payer's page, read the order by GET …/{id}"
_PERIOD: Final = "a subscription counts its periods from startDate, or from trialEnd"

ADVICE: Final = {
    "capture": _HOLD,
    "autocapture": _HOLD,
    "automaticcapture": _HOLD,
    "authorizeonly": _HOLD,
    "preauth": _HOLD,
    "preauthorization": _HOLD,
    "amounttocapture": _PART,
    "finalcapture": _FINAL,
    "quantity": "send lineItems[].quantity, and in amount what is to be paid",
    "unitamount": "send amount in minor units, and lineItems[].unitPrice",
    "unitprice": "send amount in minor units, and lineItems[].unitPrice",
    "coupon": _DISCOUNT,
    "couponcode": _DISCOUNT,
    "promotioncode": _DISCOUNT,
    "discount": _DISCOUNT,
    "discounts": _DISCOUNT,
    "discountamount": _DISCOUNT,
    "tip": "add the tip to amount",
    "tipamount": "add the tip to amount",
    "shippingamount": "add it to amount, and as an entry to lineItems",
    "shippingcost": "add it to amount, and as an entry to lineItems",
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
    "rfc": _INVOICED,
    "taxidnumber": _INVOICED,
    "usocfdi": _INVOICED,
    "razonsocial": _INVOICED,
    "setupfutureusage": _SAVE,
    "savecard": _SAVE,
    "savepaymentmethod": _SAVE,
    "price": _PLAN,
    "priceid": _PLAN,
    "defaultpaymentmethod": _CARD,
    "billingcycleanchor": _PERIOD,
    "trialperioddays": "send trialEnd, or choose a plan with trialPeriodDays",
    "cancelat": "call POST …/cancel",
    "expiresat": "send dueDate, or cancel the order by POST …/cancel",
    "returnurl": _RETURN,
    "successurl": _RETURN,
    "cancelurl": _RETURN,
}
"""What to do instead, by the name of the field in small letters without `_` and `-`."""
