"""Simultaneous requests for the same money, through two API processes.

- `command`: rounds of each race. `money`: the races. `simultaneous`: requests that are sent at one moment.
- `running`: the two processes, and what is wrong in their log and in the processor's rows.
"""
