"""The timeline view: model, widget and front end."""
