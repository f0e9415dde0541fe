"""The specification as tests over the wire: the URL of any gateway in, a table of requirement ids out."""

from mew_lab.conformance.table import arun, by_level, run

__all__ = ["arun", "by_level", "run"]
