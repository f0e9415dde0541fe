"""The specification as tests over the wire: checks any gateway by its URL; the result is a table of requirements."""

from mew_lab.conformance.table import arun, by_level, run

__all__ = ["arun", "by_level", "run"]
