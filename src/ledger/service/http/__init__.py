"""The HTTP server of an API process and its connections.

In reading order:

- `http_server`: the server. `connection`: one client's connection, which parses one request after the other and has
  time-outs. `exchange`: a request and its answer, as ASGI knows them. `flow`: the bytes of a connection in both
  directions.
- `acceptor`: the connections that arrive. `connection_guard`: all connections of the process. `http_messages`:
  addresses, first lines of answers, and the answers that the application does not give.
"""
