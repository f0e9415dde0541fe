"""The version of this package, for everybody who is told it: clients, servers, the description of the HTTP interface."""

__all__ = ["VERSION"]

VERSION = "0.2.0"
