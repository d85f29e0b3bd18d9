"""What can be done with a plan.

In reading order:

- `create`, `change`, `archive`: a merchant's requests. `use`: finds a plan, and its part in a subscription's commit.
"""
