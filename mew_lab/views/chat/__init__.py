"""The chat view: model, widget and front end."""
