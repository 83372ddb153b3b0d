"""Rows in, plain dictionaries and state changes out: what the routes do."""
