"""What all suites share."""

from __future__ import annotations

from hypothesis import settings

# Machines are shared: how long an example takes says nothing. The slow proofs run with more examples by `--hypothesis-profile=thorough`.
settings.register_profile("quick", deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=2000)
settings.load_profile("quick")
