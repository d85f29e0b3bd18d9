"""The audit: shows that the log and everything that follows from it are as they were written.

In reading order:

- `invariants`: what must hold of every state.
"""
