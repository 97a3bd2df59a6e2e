"""Whatever is done to the columns of a mapped table: a column keeps its id and its name in the files, and no id is used
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import DeltaAnalysisError
from tahoe.protocol.changes.column_changes import (
    ColumnChange,
    NewColumn,
    Path,
    Position,
    add_columns,
    change_column,
    drop_columns,
    rename_column,
)
from tahoe.protocol.changes.table_configuration import TableConfiguration
from tahoe.protocol.configuration.column_mapping import column_id, physical_name
from tahoe.protocol.log.actions import Metadata, Protocol
from tahoe.protocol.types.schema import INTEGER, STRING, Array, Field, Map, Struct, check_unique_names, walk_fields

NAMES = ("a", "b", "C", "d e")
INNER = Struct((Field(name="a", type=INTEGER), Field(name="b", type=STRING)))
TYPES = (INTEGER, STRING, INNER, Array(element=INNER), Map(key=STRING, value=INNER))

names = st.sampled_from(NAMES)
paths = st.lists(st.sampled_from((*NAMES, "element", "key", "value")), max_size=3).map(tuple)
positions = st.one_of(st.none(), st.builds(Position, st.none()), st.builds(Position, names))
columns = st.builds(
    NewColumn, field=st.builds(Field, name=names, type=st.sampled_from(TYPES)), parent=paths, position=positions
)
steps = st.lists(
    st.one_of(
        columns,
        st.tuples(st.just("rename"), paths.filter(bool), names),
        st.tuples(st.just("drop"), paths.filter(bool)),
        st.builds(ColumnChange, path=paths.filter(bool), position=positions, comment=st.one_of(st.none(), names)),
    ),
    max_size=12,
)


def start(numbers: Iterator[int]) -> TableConfiguration:
    empty = TableConfiguration(
        table="t",
        protocol=Protocol(reader_version=1, writer_version=2),
        metadata=Metadata(
            id="m",
            schema_string=Struct((Field(name="a", type=INNER),)).to_json(),
            partition_columns=(),
            configuration={},
        ),
    )
    return empty.with_properties({"delta.columnMapping.mode": "name"}, lambda: str(next(numbers)))


def known(definition: TableConfiguration) -> dict[int, tuple[str, Path]]:
    """The columns by their ids: their names in the files, and their paths."""
    found = {}
    for path, field in walk_fields(definition.schema):
        number = column_id(field)
        assert number is not None
        assert number not in found, "an id is one column's"
        found[number] = (physical_name(field), path)
    return found


@given(steps)
def test_a_column_keeps_its_id_and_no_id_comes_back(given_steps: list[object]) -> None:
    numbers = count()
    definition = start(numbers)
    seen = known(definition)
    for step in given_steps:
        before = known(definition)
        try:
            match step:
                case NewColumn():
                    changed = add_columns(definition, [step], lambda: str(next(numbers)))
                case ColumnChange():
                    changed = change_column(definition, step, lambda: str(next(numbers)))
                case ("rename", path, name):
                    changed = rename_column(definition, path, name)
                case ("drop", path):
                    changed = drop_columns(definition, [path])
                case _:
                    raise AssertionError(step)
        except DeltaAnalysisError:
            continue  # refused, and nothing happened
        check_unique_names(changed.schema, table="t")
        after = known(changed)
        for number, (name_in_files, _) in after.items():
            if number in before:
                assert name_in_files == before[number][0]
            else:
                assert number not in seen, "an id of a column that was dropped has come back"
        assert int(changed.properties["delta.columnMapping.maxColumnId"]) >= max(after)
        seen |= after
        definition = changed
