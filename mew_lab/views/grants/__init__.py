"""The grants view: model, widget and front end."""
