"""Requests with mistakes as people make them.

- `command`: the service and the options. `campaign`: the requests and what is wrong with an answer.
- `mistakes`: the mistakes, and which fields an answer has to name.
"""
