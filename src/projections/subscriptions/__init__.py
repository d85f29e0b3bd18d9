"""Plans: their documents, their rows, and pages of them.

In reading order:

- `plans`: a plan's document and row, and a page of plans. `listing`: what the pages of this package have in common.
"""
