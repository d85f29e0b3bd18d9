"""Each guard taken out of a copy of the code once, and the tests that have to notice.

- `guards`: the list. `command`: the copy, the change and the tests.
- `mutation`: every expression of the domain changed once, by mutmut.
"""
