"""The prompt: the context message, the present state, and rewrites of one request."""
