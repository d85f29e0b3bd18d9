"""The benchmarks.

In reading order:

- `journal`: commits against single INSERTs. `peers`: the journal beside other event stores.
- `http`: the service against the same INSERTs and an echo. `profile`: where the time of a create goes. `ceiling`: what
  further API processes add.
- `growth`: reads and writes by the size of the database. `search`: lists and searches.
- `documents`: stamps by the worker. `subscribers`: subscriptions that are due at one moment. `renewals`: how fast the
  worker bills them, and what that costs other merchants.
- `processors`: card payments at a merchant's account, and what its slow answers cost reads.
- `keys`: creates beside another merchant's private keys that are opened.
- `audit`: an audit against a bare read of the log.
- `rebuild`: read models from the log, and what commits wait for it.
- `past`: reads of the past, and creates beside one that folds many orders. `sealing`: what it costs creates.
- `webhooks`: deliveries beside a bare client, what they cost creates, how late messages arrive, and the feed.
- `replica`: what lists cost the primary if a standby answers them. `citus`: creates and reads on several servers.
"""
