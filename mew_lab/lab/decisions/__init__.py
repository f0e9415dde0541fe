"""Decisions of a person on proposals: the queue, cards as data, policies, limited grants."""
