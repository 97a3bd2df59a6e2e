"""High-water marks that a table keeps in a property, because the domain or the column that had them is gone.

Protocol: "Identity Columns", "Writer Requirements for Row Tracking". A number that a table has assigned is never
assigned to anything else, also if an earlier version or a clone brings the column or the feature back.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

# The high-water mark of a table that has not assigned any row id.
NO_IDS = -1


class KeptMarks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The marks of what a table no longer has.

    Attributes:
        row_id: the highest row id that was assigned.
        identity: the last values of identity columns, by their physical names in lower case. They are two if columns of
            that name had values in both directions: the lowest and the highest.
    """

    row_id: int = NO_IDS
    identity: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)

    def encode(self) -> str:
        """As the property has it."""
        return msgspec.json.encode(self, order="deterministic").decode()


def parse_kept_marks(text: str) -> KeptMarks:
    """The inverse of `KeptMarks.encode`. What a later version of tahoe adds is left out.

    Raises:
        ValueError: it is not such a text.
    """
    return msgspec.json.decode(text, type=KeptMarks)
