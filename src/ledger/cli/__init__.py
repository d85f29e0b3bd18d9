"""The command line `ledger`: a module for each command."""
