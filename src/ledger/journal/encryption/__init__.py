"""Personal data in events, and the keys that seal it.

In reading order:

- `sealing`: an event's personal fields, encrypted under the data key of its customer.
- `data_keys`: one data key per customer, wrapped by a sealing key, destroyed when the customer is erased.
- `sealing_keys`: the installation's keys, which wrap the data keys.
- `rewrapping`: moves all data keys to the newest sealing key.
"""
