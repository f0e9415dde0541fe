"""The panel view: model, widget and front end."""
