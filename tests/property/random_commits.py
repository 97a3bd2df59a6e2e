"""Random commits."""

from __future__ import annotations

from hypothesis import strategies as st

from tahoe.protocol.log.actions import (
    Action,
    DeletionVectorDescriptor,
    DomainMetadata,
    Remove,
    Txn,
)
from tests.table.builders import add

# Spellings of few files, so that actions meet: relative, escaped, absolute.
PATHS = ["a", "b", "c%20d", "c d", "p=1/e", "file:///elsewhere/f", "file:/elsewhere/f"]

VECTORS = [
    None,
    *(DeletionVectorDescriptor(storage_type="i", path_or_inline=f"v{n}", size_bytes=1, cardinality=1) for n in (1, 2)),
]


@st.composite
def commits(draw: st.DrawFn) -> list[list[Action]]:
    """Legal commits: at most one add and one remove of a file each, never both of one logical file."""
    found: list[list[Action]] = []
    for version in range(draw(st.integers(1, 7))):
        actions: list[Action] = []
        names = draw(st.lists(st.sampled_from(PATHS), max_size=4))
        seen: set[str] = set()
        for path in names:
            spelled = {"c d": "c%20d", "file:/elsewhere/f": "file:///elsewhere/f"}.get(path, path)
            if spelled in seen:
                continue
            seen.add(spelled)
            first, second = draw(st.permutations(VECTORS))[:2]
            kind = draw(st.sampled_from(["add", "remove", "both"]))
            if kind != "remove":
                actions.append(
                    add(path, deletion_vector=first, size_bytes=version + 1, stats=f'{{"numRecords":{version}}}')
                )
            if kind != "add":
                actions.append(Remove(path=path, deletion_vector=second if kind == "both" else first))
        if draw(st.booleans()):
            actions.append(Txn(app_id=draw(st.sampled_from("xy")), version=version))
        if draw(st.booleans()):
            actions.append(
                DomainMetadata(
                    domain=draw(st.sampled_from("de")), configuration=str(version), removed=draw(st.booleans())
                )
            )
        found.append(draw(st.permutations(actions)))
    return found
