"""One commit: the transaction, what it may go behind, and what follows it."""
