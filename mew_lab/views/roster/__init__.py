"""The roster view: model, widget and front end."""
