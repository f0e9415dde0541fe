"""A space put together; knows neither IPython nor widgets."""
