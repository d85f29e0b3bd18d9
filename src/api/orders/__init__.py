"""What may be sent: one Struct per JSON object, and from them the published description of the interface.

The rule a stranger would break: a Struct says what a field may look like, in every spelling that the contract accepts;
what the fields mean together is decided in `drafting`. Unknown fields are ignored, so that a client may be newer than the
service. `null` is the same as absent, except in a customer's details, where it clears them.
"""
