"""How many examples a law runs with: as the profile of hypothesis says, see `conftest.py`."""

from __future__ import annotations

from hypothesis import settings


def fewer(divisor: int) -> settings:
    """Fewer examples than other laws, for one that takes long."""
    default: settings = settings.default
    return settings(max_examples=default.max_examples // divisor)
