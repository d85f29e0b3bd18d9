"""What processors report, from the inbox to the orders."""
