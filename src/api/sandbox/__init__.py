"""The sandbox's helpers: endpoints that act as payers, banks, the acquirer and the clock would. Production has none of
them.

One file per helper, as in `api.orders`. `payer_pages` and `html` are the pages for a payer's browser; `deliver`,
`find_payment` and `processor` are what helpers share.
"""
