"""The feed view: model, widget and front end."""
