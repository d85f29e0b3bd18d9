"""What can be done with a merchant's accounts with processors.

In reading order:

- `account`: finds an account. `words`: the text of a processor, as it may be shown. `check`: asks it about an
  account.
- `connect`: connects an account, or changes it. `disconnect`: ends its new payments. `erase_keys`: erases the keys of
  those that were disconnected long ago.
"""
