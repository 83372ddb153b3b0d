"""What the REST API answers, for the server and its clients."""
