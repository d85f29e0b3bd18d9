"""A change of the sealing key while saved cards pay.

- `command`: the options, and races for saved cards. `rotation`: the cards, the payments and the change.
"""
