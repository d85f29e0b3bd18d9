"""The processes of the service, its HTTP server and its connections.

In reading order:

- `supervisor`: starts and restarts Postgres, the API processes and the worker. `stop_signals`: the signals that it acts
  on. `listen_socket`: the socket on which the service is reached. `shared_directory`: where its processes count.
- `child_slot`: the place of one process. `child_process`: the parent's view of it. `child_main`: its main function.
  `ping`: whether it answers.
- `http_server`: the server of an API process. `bounded_protocol`: what one client can make it hold.
  `connection_guard`: all of its connections. `buffered_transport`: one write for an answer. `http_messages`: what a
  connection makes of a request's head, and answers by itself.
"""
