"""The tree of errors: whoever reads a message must learn what happened, where, and what to do."""

import copy
import pickle
import re

import pytest

from tahoe import errors
from tahoe.errors import DeltaError


def classes(root=DeltaError):
    """The class and those below it; what other modules make of them does not count."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from classes(child)


TREE = list(classes())
GROUPS = [c for c in DeltaError.__subclasses__() if c in TREE]
LEAVES = [c for c in TREE if c is not DeltaError and c not in GROUPS]  # what is raised

by_name = pytest.mark.parametrize("error", TREE, ids=lambda c: c.__name__)
by_leaf = pytest.mark.parametrize("error", LEAVES, ids=lambda c: c.__name__)


def made(error):
    return error(**{name: f"<{name}>" for name in sorted(error.parameter_names())})


def test_every_class_of_the_module_is_in_the_tree():
    defined = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)}
    assert defined == set(TREE)
    assert len(LEAVES) > 30


@by_name
def test_a_class_has_a_condition_of_its_own_and_an_sqlstate(error):
    assert re.fullmatch(
        r"((DIFFERENT_)?DELTA|WRONG_COLUMN_DEFAULTS_FOR_DELTA)_[A-Z0-9_.]+|PARSE_SYNTAX_ERROR|TABLE_OR_VIEW_NOT_FOUND|OPERATION_CANCELED|"
        r"CAST_OVERFLOW_IN_TABLE_INSERT|CAST_INVALID_INPUT|INVALID_VARIANT_CAST|CANNOT_UP_CAST_DATATYPE|"
        r"DATATYPE_MISMATCH\.CAST_WITH(OUT|_FUNC|_CONF)_SUGGESTION|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|(BINARY_)?ARITHMETIC_OVERFLOW|"
        r"NUMERIC_VALUE_OUT_OF_RANGE\.WITH_SUGGESTION|CAST_OVERFLOW",
        error.condition,
    )
    assert re.fullmatch(r"[0-9A-Z]{5}", error.sqlstate)
    same = [c for c in TREE if c.condition == error.condition]
    is_deltas = (
        "DELTA" in error.condition
    )  # Spark raises some of its own both for what is asked and for what is written
    assert (
        all(issubclass(c, same[0]) for c in same) or not is_deltas
    )  # a class may be divided, by PySpark's classes or by what they tell


@by_leaf
def test_an_error_can_be_raised_with_its_parameters_and_says_them_all(error):
    with pytest.raises(error) as raised:
        raise made(error)
    text = str(raised.value)
    assert text.startswith(f"[{error.condition}] ")
    assert text.endswith(f"SQLSTATE: {error.sqlstate}")
    assert raised.value.parameters == {name: f"<{name}>" for name in error.parameter_names()}
    assert all(f"<{name}>" in text for name in error.parameter_names())
    assert "{" not in text.replace("; { } (", ""), "a template was not filled"


@by_leaf
def test_an_error_says_what_to_do_next(error):
    found = made(error)
    assert found.next_step
    assert found.next_step in str(found)
    assert error.todo is not DeltaError.todo, "the leaf has no next step of its own"


@pytest.mark.parametrize(
    "error", [errors.ChangesNotRecordedError, errors.ColumnDefaultsNotEnabledError, errors.AppendOnlyTableError]
)
def test_an_error_that_a_property_would_avoid_has_the_statement(error):
    """It named a property, and not how it is set."""
    assert "ALTER TABLE delta.`<table>` SET TBLPROPERTIES (delta." in made(error).next_step


@by_leaf
def test_an_error_about_a_table_names_it(error):
    """Schema logs of streams name the log, which belongs to a query; programs, catalogs and wrong calls have no table."""
    without = (
        errors.DeltaSessionError
        | errors.StatementSyntaxError
        | errors.DeltaProgramError
        | errors.DeltaCatalogError
        | errors.CalledOnClassError
        | errors.UnknownNameError
        | errors.UnknownImportError
    )
    if not issubclass(error, without):
        assert error.parameter_names() & {"table", "location", "schemaTrackingLocation"}


@by_leaf
def test_an_error_survives_pickling_and_copying(error):
    # Spark carries errors between processes.
    found = made(error)
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert type(again) is error
        assert (str(again), again.parameters, again.next_step) == (str(found), found.parameters, found.next_step)


@by_leaf
def test_a_missing_or_an_unknown_parameter_is_a_mistake_in_the_code(error):
    with pytest.raises(TypeError):
        error(**dict.fromkeys(error.parameter_names(), "x"), no_such_parameter="x")
    if error.parameter_names():
        with pytest.raises(TypeError):
            error()


def test_the_tree_in_the_docstring_is_the_tree():
    drawn: dict[str, list[str]] = {}
    group = ""
    for line in (errors.__doc__ or "").splitlines():
        names = re.findall(r"\b[A-Z]\w*(?:Error|Exception)\b", line) if line.startswith("    ") else []
        if names and names[0] in {c.__name__ for c in GROUPS}:
            group = names[0]
            drawn[group] = []
        elif group:
            drawn[group].extend(names)
    assert {name: sorted(names) for name, names in drawn.items()} == {
        c.__name__: sorted(below.__name__ for below in TREE if issubclass(below, c) and below is not c) for c in GROUPS
    }


def test_names_that_the_reference_has_are_the_same():
    # Code that catches delta.exceptions by name goes on working.
    conflicts = (
        "ConcurrentWriteException MetadataChangedException ProtocolChangedException ConcurrentAppendException "
        "ConcurrentDeleteReadException ConcurrentDeleteDeleteException ConcurrentTransactionException"
    )
    for name in conflicts.split():
        assert issubclass(getattr(errors, name), errors.DeltaConcurrentModificationException)
