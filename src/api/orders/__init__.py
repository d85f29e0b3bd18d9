"""The endpoints of payment orders, one file each: the body's shape, its parser, the endpoint function, its description.

A struct describes what a field may look like, in every spelling that the contract accepts; the parser checks what the
fields mean together. Where two names of a field are accepted, both are in the struct: the parser takes the one that
came and refuses two that differ. Unknown fields are ignored, so that a client may be newer than the service. `null` is
the same as absent, except in a customer's details, where it clears them.

Read `create` first. `responses` has what the endpoints share. `invoices`: the endpoints of an order's electronic
invoices.
"""
