"""Small models that are changed at random and imported, to see that each is imported or refused by name."""
