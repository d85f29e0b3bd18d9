"""The pages that a payer's browser reaches, in Spanish or English.

In reading order:

- `self_invoice`: the page on which a payer requests the invoice of an order. `self_invoice_form`: its fields, and what
  is wrong with them. `self_invoice_texts`: its texts.
- `payer_return`: the page to which a processor sends a payer back from the bank. `return_address`: the merchant's
  address to which a payer goes on.
- `html`: the HTML of every page for payers, also of the sandbox's.
"""
