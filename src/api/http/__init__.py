"""What happens to every request, whatever its endpoint."""
