"""The filter language: one text for the log, the feed, the command line and the index. `grammar` describes it."""
