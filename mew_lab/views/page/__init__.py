"""Serves the panel of a lab to a browser, without Jupyter: sign-in, sessions, the socket, and the page itself."""
