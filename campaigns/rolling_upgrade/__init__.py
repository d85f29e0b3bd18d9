"""The campaign of a rolling upgrade: the former release and this one run on one database under load.

- `command`: the options. `campaign`: a run and its verdict. `former`: how the former release is found and laid out.
"""
