"""The processes of the service, its HTTP server and its connections.

In reading order:

- `supervisor`: starts and restarts Postgres, the API processes and the worker. `stop_signals`: the signals that it acts
  on. `listen_socket`: the socket on which the service is reached. `shared_directory`: the directory in which its
  processes count.
- `child_slot`: the place of one process. `child_process`: the parent's view of it. `child_main`: its main function.
  `ping`: whether it answers. `descriptors`: how many connections it may have.
- `http`: the HTTP server of an API process.
"""
