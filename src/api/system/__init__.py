"""Endpoints for operators and for people, without a key.

In reading order:

- `health`: whether a process lives, and whether it is ready. `readiness`: the checks for that, and the log of changes.
- `metrics`: the metrics of every process.
- `docs_page`: the description of the interface, and a page that shows it. `errors_page`: every error code.
  `events_page`: every kind of event. `reference_html`: the HTML of both.
- `request_spans`: spans of requests, if traces are on.
- `file_links`: signed links to files.
- `processor_messages`: where processors deliver signed messages. `account_messages`: where they report about one
  account, in their own form.
"""
