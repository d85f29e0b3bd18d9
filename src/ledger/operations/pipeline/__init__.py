"""The one way in which a stream is changed."""
