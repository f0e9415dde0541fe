"""The streams view: model, widget and front end."""
