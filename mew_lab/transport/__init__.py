"""Moving text and bytes; knows no envelope."""
