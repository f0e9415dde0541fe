"""Calls the person of a notebook whose page shows no part in which something waits."""
