"""A space put together: gateway, seats, decisions and grants of one person, without IPython and without widgets."""
