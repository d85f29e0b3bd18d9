"""The endpoints of plans, one file each (contract N65, N66).

In reading order:

- `fields`: what a request gives of a plan, and its parser.
- `list`, `show`: a page of plans, and one of them. `create`, `change`, `archive`: the writes.
"""
