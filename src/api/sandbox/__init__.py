"""The sandbox's helpers: operations on the world around a merchant, which exist in no production."""
