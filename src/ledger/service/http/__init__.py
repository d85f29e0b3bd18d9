"""The HTTP server of an API process and its connections.

In reading order:

- `http_server`: the server. `bounded_protocol`: what one client can make it hold. `connection_guard`: all of its
  connections. `buffered_transport`: one write for an answer. `http_messages`: what a connection makes of a request's
  head, and answers by itself.
"""
