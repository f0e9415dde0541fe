"""What a person's own decisions teach: candidates of rules, judgements and back-tests. Pure: decisions in, data out."""
