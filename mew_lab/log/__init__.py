"""Journals of a space: writing, reading, verifying, replaying and pruning them, and tables and pictures of them."""
