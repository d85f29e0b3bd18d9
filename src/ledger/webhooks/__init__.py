"""Webhooks: events posted to the programs of merchants, signed by the rules of Standard Webhooks 1.0.0.

Never connect to an address that `addresses` does not permit: a merchant names the receiver, and the ledger runs inside
the operator's network.

In reading order:

- `signing`: secrets of endpoints, and the headers by which a receiver verifies a message.
- `endpoint_secrets`: these secrets, held sealed.
- `addresses`: the addresses to which webhooks may be sent. `urls`: the URLs that a merchant may write.
- `attempts`: how one attempt to deliver a message ended.
- `resolver`: the addresses of names. `connections`: checks the address of each connection, and sends over it.
- `client`: posts a message once, and judges the answer.
"""
