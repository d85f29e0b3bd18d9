"""The processes of the service, its HTTP server and its connections."""
