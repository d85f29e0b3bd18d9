"""What can be done with a customer."""
