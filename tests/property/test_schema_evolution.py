"""Law 12: merging schemas is associative, never narrows, and keeps what columns carry."""

from hypothesis import given
from hypothesis import strategies as st

from tahoe.protocol.changes.evolution import merge_schemas, merge_source_columns, new_columns
from tahoe.protocol.types.schema import INTEGER, LONG, STRING, Array, Field, Map, Struct, walk_fields


def structs(depth: int) -> st.SearchStrategy[Struct]:
    """Schemas in which a name tells the kind of type, since a struct that becomes a number is refused elsewhere."""
    kinds = {"a": st.sampled_from([LONG, INTEGER, STRING]), "b": st.just(STRING)}
    if depth:
        inner = structs(depth - 1)
        kinds |= {
            "s": inner,
            "l": inner.map(lambda s: Array(element=s)),
            "m": inner.map(lambda s: Map(key=STRING, value=s)),
        }
    metadata = st.sampled_from([{}, {"delta.columnMapping.id": 7}])
    fields = [st.builds(Field, name=st.just(name), type=kind, metadata=metadata) for name, kind in kinds.items()]
    return st.lists(st.one_of(fields), min_size=1, max_size=4, unique_by=lambda f: f.name).map(
        lambda fs: Struct(tuple(fs))
    )


SCHEMAS = structs(2)


@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_merging_is_associative(a, b, c):
    assert merge_schemas(merge_schemas(a, b), c) == merge_schemas(a, merge_schemas(b, c))


@given(SCHEMAS, SCHEMAS)
def test_known_columns_keep_their_place_type_and_metadata(table, data):
    merged = dict(walk_fields(merge_schemas(table, data)))
    for path, known in walk_fields(table):
        assert merged[path].metadata == known.metadata
        assert type(merged[path].type) is type(known.type)


@given(SCHEMAS, SCHEMAS)
def test_after_merging_nothing_is_new(table, data):
    assert not list(new_columns(merge_schemas(table, data), data))


def begins(path, start):
    return path[: len(start)] == start


def struct_paths(schema, prefix=()):
    """Every column, and every field of structs."""
    for field in schema:
        yield (*prefix, field.name)
        if isinstance(field.type, Struct):
            yield from struct_paths(field.type, (*prefix, field.name))


@given(SCHEMAS, SCHEMAS, st.data())
def test_only_what_is_assigned_to_is_taken_in(table, data, draw):
    paths = list(struct_paths(data))
    assigned = draw.draw(st.lists(st.sampled_from(paths), unique=True))
    taken = {path for path, _ in new_columns(table, merge_source_columns(data, assigned))}
    for path, _ in new_columns(table, data):
        whole, part = any(begins(path, one) for one in assigned), any(begins(one, path) for one in assigned)
        assert (path in taken) == (whole or part)


@given(SCHEMAS, SCHEMAS)
def test_all_is_taken_in_where_all_is_assigned_to(table, data):
    everything = merge_source_columns(data, [(name.upper(),) for name in data.names])
    assert merge_schemas(table, everything) == merge_schemas(table, data)
