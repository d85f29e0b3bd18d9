"""What falls due, and the jobs that due times become."""
