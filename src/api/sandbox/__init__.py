"""The sandbox's helpers: endpoints that act as payers, banks, the acquirer and the clock would. Production has none of
them.

One file per helper, as in `api.orders`. In reading order:

- `clock`: the merchant's clock. `deposits`, `disputes`, `settlements`: what banks and the acquirer report.
  `processor_mode`: the processor as usual, down or slow. `stamping`: the stamping provider likewise.
- `payer_pages`, `payer_texts`: the pages for a payer's browser, in Spanish or English.
- `deliver`, `find_payment`, `once`, `processor`: what helpers share.
"""
