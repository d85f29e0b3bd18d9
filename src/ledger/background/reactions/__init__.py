"""What follows events."""
