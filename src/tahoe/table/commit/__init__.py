"""One commit: the transaction, its conflict check and rebase, and the post-commit hooks."""
