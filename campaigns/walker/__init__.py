"""A walker: random requests of merchants about subscriptions and invoiced orders, over years of the sandbox's clock.

`walk`: one merchant's requests. `checks`: what has to hold of the log afterwards. `command`: many walks on one service.
"""
