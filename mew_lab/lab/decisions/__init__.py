"""What waits for a decision of a person: the queue, cards as data, policies, limited grants."""
