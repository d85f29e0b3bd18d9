"""The group commit: how pending commands become one batch, and everything that can happen to it."""
