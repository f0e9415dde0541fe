"""The tools view: model, widget and front end."""
