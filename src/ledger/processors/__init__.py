"""The rooms outside: the contract of a card processor, and the processors that keep it."""
