"""Delta's own statements: one that is read wrongly does what was not written, and one that is claimed wrongly breaks
SQL.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tahoe.errors import StatementSyntaxError
from tahoe.sql.grammar import parse, parse_name, statement_in_script
from tahoe.sql.statements import (
    AddFeature,
    AsOf,
    BeginTransaction,
    CacheSelect,
    Clone,
    ComputeStatistics,
    ConvertToDelta,
    CopyInto,
    CreateBloomFilters,
    CreateTag,
    DescribeDetail,
    DescribeHistory,
    DropBloomFilters,
    DropFeature,
    DropTag,
    EndTransaction,
    Expression,
    Fsck,
    Generate,
    IndexedColumn,
    Name,
    Optimize,
    Parsed,
    PartitionColumn,
    ReorgBloomFilters,
    ReorgPurge,
    ReorgUpgradeUniform,
    Restore,
    ShowTags,
    SyncIdentity,
    SyncMetadata,
    Vacuum,
    condition_of_statement,
    values_of,
)
from tahoe.sql.tokens import tokens_of

T = Name(parts=("t",))


class At:
    """An expression by its text, wherever it stands."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, Expression) and other.text == self.text

    __hash__ = None


STATEMENTS = {
    "describe history t": DescribeHistory(table=T),
    "DESC HISTORY t": DescribeHistory(table=T),
    "describe history a.b.c limit 3": DescribeHistory(table=Name(parts=("a", "b", "c")), limit=At("3")),
    "describe history delta.`/a b/``c`": DescribeHistory(table=Name(parts=("delta", "/a b/`c"))),
    "describe history '/data/t' limit :n": DescribeHistory(table=Name(path="/data/t"), limit=At(":n")),
    'describe history "/data/t"': DescribeHistory(table=Name(path="/data/t")),
    "describe history identifier(:name || 'x') limit ?": DescribeHistory(
        table=Name(expression=At(":name || 'x'")), limit=At("?")
    ),
    "describe history identifier": DescribeHistory(table=Name(parts=("identifier",))),
    "describe history t limit (select max(n) from limits)": DescribeHistory(
        table=T, limit=At("(select max(n) from limits)")
    ),
    "describe history limit limit limit": DescribeHistory(table=Name(parts=("limit",)), limit=At("limit")),
    "describe detail history": DescribeDetail(table=Name(parts=("history",))),
    "desc detail t;": DescribeDetail(table=T),
    "vacuum t": Vacuum(table=T),
    "vacuum '/data/t' retain 0 hours": Vacuum(table=Name(path="/data/t"), retain_hours=At("0")),
    "vacuum t dry run retain 24 * 7 hours lite": Vacuum(table=T, mode="LITE", retain_hours=At("24 * 7"), dry_run=True),
    "vacuum t full using inventory files dry run": Vacuum(
        table=T, mode="FULL", inventory=Name(parts=("files",)), dry_run=True
    ),
    "vacuum t using inventory (select * from f where (a))": Vacuum(
        table=T, inventory_query=At("select * from f where (a)")
    ),
    "cache select * from t": CacheSelect(table=T),
    "cache select a, b.`c d` from t where a > 1": CacheSelect(
        table=T, columns=(("a",), ("b", "c d")), where=At("a > 1")
    ),
    "copy into t from '/in' fileformat = csv": CopyInto(table=T, source=At("'/in'"), format="csv"),
    "copy into t by position from (select a, b + 1 from :s) fileformat = csv validate 3 rows": CopyInto(
        table=T, source=At(":s"), format="csv", by_position=True, select=("a", "b + 1"), validate=True, validate_rows=3
    ),
    "optimize t": Optimize(table=T),
    "optimize delta.`/t` full": Optimize(table=Name(parts=("delta", "/t")), full=True),
    "optimize t where p = 'zorder by x' zorder by (a, b.c)": Optimize(
        table=T, where=At("p = 'zorder by x'"), zorder_by=(("a",), ("b", "c"))
    ),
    "optimize t where zorder = 1": Optimize(table=T, where=At("zorder = 1")),
    "optimize t zorder by a, `b c`": Optimize(table=T, zorder_by=(("a",), ("b c",))),
    "generate symlink_format_manifest for table t": Generate(table=T, mode="symlink_format_manifest"),
    "convert to delta parquet.`/t`": ConvertToDelta(table=Name(parts=("parquet", "/t"))),
    "convert to delta t no statistics partitioned by (a int, b decimal(3, 2), c struct<x: int>)": ConvertToDelta(
        table=T,
        statistics=False,
        partition_by=(
            PartitionColumn(name="a", type="int"),
            PartitionColumn(name="b", type="decimal(3, 2)"),
            PartitionColumn(name="c", type="struct<x: int>"),
        ),
    ),
    "alter table t create tag '2026-q3'": CreateTag(table=T, tag="2026-q3"),
    "alter table t create or replace tag q3 version as of 'q2' expires current_date() + 1": CreateTag(
        table=T, tag="q3", replaces=True, as_of=AsOf(version=At("'q2'")), expires=At("current_date() + 1")
    ),
    "alter table t create tag `a b` for timestamp as of now()": CreateTag(
        table=T, tag="a b", as_of=AsOf(timestamp=At("now()"))
    ),
    "alter table t drop tag q3": DropTag(table=T, tag="q3"),
    "alter table t drop tag if exists 'q3';": DropTag(table=T, tag="q3", if_exists=True),
    "show tags t": ShowTags(table=T),
    "show tags from t": ShowTags(table=T),
    "show tags in t": ShowTags(table=T),
    "restore t version as of 3": Restore(table=T, as_of=AsOf(version=At("3"))),
    "restore table t to for system_version as of :v": Restore(table=T, as_of=AsOf(version=At(":v"))),
    "restore t to timestamp as of current_timestamp() - interval 1 day": Restore(
        table=T, as_of=AsOf(timestamp=At("current_timestamp() - interval 1 day"))
    ),
    "restore t to system_time as of '2026-01-01'": Restore(table=T, as_of=AsOf(timestamp=At("'2026-01-01'"))),
    "create table a shallow clone b": Clone(target=Name(parts=("a",)), source=Name(parts=("b",)), is_shallow=True),
    "create table if not exists a deep clone b version as of 1 tblproperties ('k' = 'v', x.y = true) location '/l'": Clone(
        target=Name(parts=("a",)),
        source=Name(parts=("b",)),
        is_shallow=False,
        if_not_exists=True,
        as_of=AsOf(version=At("1")),
        properties=(("k", "v"), ("x.y", "true")),
        location="/l",
    ),
    "replace table a shallow clone b timestamp as of '2026-01-01'": Clone(
        target=Name(parts=("a",)),
        source=Name(parts=("b",)),
        is_shallow=True,
        creates=False,
        replaces=True,
        as_of=AsOf(timestamp=At("'2026-01-01'")),
    ),
    "alter table t drop feature deletionVectors": DropFeature(table=T, feature="deletionVectors"),
    "alter table t drop feature 'v2Checkpoint' truncate history": DropFeature(
        table=T, feature="v2Checkpoint", truncate_history=True
    ),
    "alter table t add feature typeWidening-preview": AddFeature(table=T, feature="typeWidening-preview"),
    "alter table t alter column a.b sync identity": SyncIdentity(table=T, column=("a", "b")),
    "alter table t change id sync identity": SyncIdentity(table=T, column=("id",)),
    "fsck repair table t": Fsck(table=T),
    "fsck repair table t dry run": Fsck(table=T, dry_run=True),
    "fsck repair table t metadata only": Fsck(table=T, metadata_only=True),
    "fsck repair table t verify all files dry run": Fsck(table=T, verify_all_files=True, dry_run=True),
    "analyze table t compute delta statistics": ComputeStatistics(table=T),
    "analyze table delta.`/p` compute delta statistics": ComputeStatistics(table=Name(parts=("delta", "/p"))),
    "reorg table t apply (purge)": ReorgPurge(table=T),
    "reorg table t where apply = 1 and f(apply) apply (purge)": ReorgPurge(table=T, where=At("apply = 1 and f(apply)")),
    "reorg table t where p = 1 apply (bloomfilter)": ReorgBloomFilters(table=T, where=At("p = 1")),
    "create bloomfilter index on table t for columns (id options (fpp = 0.01, numItems 5), a.b) options (fpp "
    "'0.1')": CreateBloomFilters(
        table=T,
        columns=(
            IndexedColumn(path=("id",), options=(("fpp", "0.01"), ("numItems", "5"))),
            IndexedColumn(path=("a", "b")),
        ),
        options=(("fpp", "0.1"),),
    ),
    "create bloomfilter index on delta.`/p` for columns (`a.b`)": CreateBloomFilters(
        table=Name(parts=("delta", "/p")), columns=(IndexedColumn(path=("a.b",)),)
    ),
    "drop bloomfilter index on table t": DropBloomFilters(table=T),
    "drop bloomfilter index on t for columns (id, a.b)": DropBloomFilters(table=T, columns=(("id",), ("a", "b"))),
    "reorg table t apply (upgrade uniform (iceberg_compat_version = 2))": ReorgUpgradeUniform(
        table=T, iceberg_compat_version=At("2")
    ),
    "msck repair table t sync metadata": SyncMetadata(table=T),
    "begin transaction": BeginTransaction(),
    "start transaction isolation level serializable": BeginTransaction(is_serializable=True),
    "begin transaction isolation level snapshot": BeginTransaction(),
    "commit": EndTransaction(commits=True),
    "commit work": EndTransaction(commits=True),
    "rollback transaction": EndTransaction(commits=False),
}

by_statement = pytest.mark.parametrize("text", STATEMENTS)


@by_statement
def test_a_statement_is_its_record(text):
    assert parse(text) == Parsed(STATEMENTS[text])


@by_statement
def test_comments_and_lines_between_the_words_mean_nothing(text):
    words = [token.text for token in tokens_of(text)]
    if "-preview" in text:  # whose parts stand together
        return
    found = parse("-- describe history x\n" + "\n/* vacuum /* x */ ; */ ".join(words))
    assert found is not None
    assert type(found.statement) is type(STATEMENTS[text])


@by_statement
def test_keywords_have_no_case(text):
    words = (token.text.upper() if token.kind == "word" else token.text for token in tokens_of(text))
    found = parse(" ".join(words)) if "-preview" not in text else parse(text)
    assert found is not None
    assert type(found.statement) is type(STATEMENTS[text])


@by_statement
@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("explain", "simple"),
        ("EXPLAIN EXTENDED", "extended"),
        ("explain codegen", "codegen"),
        ("explain formatted", "formatted"),
    ],
)
def test_a_statement_may_be_explained(text, words, mode):
    assert parse(f"{words} {text}") == Parsed(STATEMENTS[text], mode)


@by_statement
def test_expressions_say_where_they_stand(text):
    found = parse(text)
    for expression in values_of(found.statement):
        assert text[expression.start :].startswith(expression.text)


@by_statement
def test_what_comes_after_a_statement_is_refused(text):
    with pytest.raises(StatementSyntaxError):
        parse(text + " ) x")


NOT_OURS = (
    "",
    ";",
    "select 1",
    "analyze table t compute statistics",
    "analyze table t compute statistics for columns delta",
    "analyze tables in db compute statistics",
    "select 'describe history t'",
    "-- describe history t\nselect 1",
    "/* vacuum t */ select 1",
    "describe history",
    "describe detail",
    "describe table history",
    "describe extended history",
    "describe function history",
    "desc t",
    "alter table t add columns (feature int)",
    "alter table t drop column feature",
    "alter table t alter column sync type int",
    "alter table t set tblproperties ('delta.feature.x' = 'supported')",
    "alter table t rename to sync",
    "create table t (clone int)",
    "create table shallow (x int) using delta",
    "create table clone as select 1 as shallow",
    "create view v as select 'shallow clone'",
    "alter table t set tags ('a' = 'b')",
    "alter table t create index tag",
    "show tables in tags",
    "create or replace temporary view x as select 1",
    "replace table t using delta as select 1",
    "insert into optimize values (1)",
    "with vacuum as (select 1) select * from vacuum",
    "explain select 1",
    "begin describe history t; end",
    "begin select 1; end",
    "start metrics",
    "convert to json x",
    "set describe = history",
)


@pytest.mark.parametrize("text", NOT_OURS)
def test_other_sql_is_not_ours(text):
    assert parse(text) is None


MISTAKES = {
    "describe history t limt 1": ("'limt'", 1, 19),
    "describe history t limit": ("end of input", 1, 24),
    "describe history t\n  limit 1)": ("')'", 2, 9),
    "describe history a.": ("end of input", 1, 19),
    "describe detail t limit 1": ("'limit'", 1, 18),
    "vacuum": ("end of input", 1, 6),
    "vacuum t retain 1": ("end of input", 1, 17),
    "vacuum t dry run dry run": ("'dry'", 1, 17),
    "vacuum t lite full": ("'full'", 1, 14),
    "optimize t where": ("end of input", 1, 16),
    "optimize t zorder a": ("'a'", 1, 18),
    "optimize t zorder by (a": ("end of input", 1, 23),
    "generate for table t": ("'table'", 1, 13),
    "convert to delta t partitioned by (a)": ("')'", 1, 36),
    "restore t": ("end of input", 1, 9),
    "alter table t create tag 2026-q3": ("'2026'", 1, 25),
    "alter table t create tag q3 expires": ("end of input", 1, 35),
    "alter table t create tag q3 'x'": ("''x''", 1, 28),
    "alter table t drop tag": ("end of input", 1, 22),
    "show tags": ("end of input", 1, 9),
    "restore t to version 3": ("'version'", 1, 13),
    "create table a shallow clone b location /x": ("'/'", 1, 40),
    "create table a shallow clone b for": ("end of input", 1, 34),
    "create table a shallow clone b for location '/x'": ("'location'", 1, 35),
    "alter table t drop feature": ("end of input", 1, 26),
    "alter table t drop feature f truncate": ("end of input", 1, 37),
    "reorg table t": ("end of input", 1, 13),
    "create bloomfilter index on t": ("end of input", 1, 29),
    "drop bloomfilter index t": ("'t'", 1, 23),
    "reorg table t apply (clean)": ("'clean'", 1, 21),
    "reorg t apply (purge)": ("'t'", 1, 6),
    "begin transaction isolation level chaos": ("'chaos'", 1, 34),
    "commit and chain": ("'and'", 1, 7),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_with_its_place(text):
    near, line, position = MISTAKES[text]
    with pytest.raises(StatementSyntaxError) as raised:
        parse(text)
    assert {name: raised.value.parameters[name] for name in ("near", "line", "position")} == {
        "near": near,
        "line": line,
        "position": position,
    }
    carets = [at for at in str(raised.value).splitlines() if re.fullmatch("-*\\^\\^\\^", at)]
    assert carets == ["-" * position + "^^^"]


def test_a_condition_is_no_value():
    found = parse("reorg table identifier(:t) where p = :p apply (purge)").statement
    assert [e.text for e in values_of(found)] == [":t"]
    assert condition_of_statement(found).text == "p = :p"


def test_names_alone():
    assert parse_name("a.`b.c`") == Name(parts=("a", "b.c"))
    with pytest.raises(StatementSyntaxError):
        parse_name("a b")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("begin describe history t; end", "describe history t"),
        ("begin if x then vacuum t; end if; end", "vacuum t"),
        ("begin select 1; optimize t where a = ';'; end", "optimize t where a = ';'"),
        ("begin select 'vacuum t'; end", None),
        ("begin execute immediate 'vacuum t'; end", None),
        ("vacuum t", None),
    ],
)
def test_a_statement_is_found_in_a_script(text, found):
    assert statement_in_script(text) == (None if found is None else Expression(found, text.index(found)))


# --- whatever is written


_STRANGE = ["select", "'", '"', "`", "/*", "--", "\\", "\n"]
WORDS = [*sorted({token.text for text in STATEMENTS for token in tokens_of(text) if token.text}), *_STRANGE]
soups = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@given(soups | st.text(max_size=40))
def test_any_text_is_a_statement_or_not_or_refused(text):
    try:
        found = parse(text)
    except StatementSyntaxError:
        return
    if found is not None:
        assert all(expression.text in text for expression in values_of(found.statement))
    statement_in_script(text)


@given(st.sampled_from(sorted(STATEMENTS)), st.data())
def test_a_statement_with_something_changed_is_read_or_refused(text, data):
    tokens = [token.text for token in tokens_of(text)][:-1]
    place = data.draw(st.integers(0, len(tokens) - 1))
    change = data.draw(st.sampled_from(["drop", "double", "other"]))
    other = {"drop": [], "double": [tokens[place]] * 2, "other": [data.draw(st.sampled_from(WORDS))]}[change]
    try:
        parse(" ".join([*tokens[:place], *other, *tokens[place + 1 :]]))
    except StatementSyntaxError as error:
        assert error.parameters["line"] >= 1  # noqa: PT017  the error is the one that may come


@given(soups)
def test_sql_that_begins_otherwise_is_never_claimed(text):
    for head in (
        "select",
        "insert into t",
        "with x as (select 1)",
        "create view v as",
        "drop table",
        "show tables",
        "call f",
        "values",
    ):
        assert parse(f"{head} {text}") is None


@given(st.text(max_size=60))
def test_tokens_stand_where_they_say(text):
    tokens = tokens_of(text)
    for token in tokens:
        assert text[token.start : token.end] == token.text
    assert [t.start for t in tokens] == sorted(t.start for t in tokens)
    assert tokens[-1].kind == "end"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\'b'", "a'b"),
        ("'a''b'", "a'b"),
        (r"'\u0041\n'", "A\n"),
        (r"r'a\n'", r"a\n"),
        ('"a\'b"', "a'b"),
        (r"'\101'", "A"),
        (r"'\%'", r"\%"),
    ],
)
def test_strings_are_what_spark_reads(text, value):
    [token, _] = tokens_of(text)
    assert (token.kind, token.value) == ("text", value)
