"""Laws 1, 2 and 9: replay is independent of order inside a commit, of checkpoints, and of being columnar."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tahoe.protocol.log import log_files
from tahoe.protocol.log.actions import (
    Action,
    Add,
    CheckpointMetadata,
    Remove,
    Sidecar,
    encode_commit,
)
from tahoe.protocol.log.replay import State, replay
from tahoe.table.commit.post_commit_hooks import compact_log
from tahoe.table.reading.snapshot import Snapshot, load_snapshot, refresh
from tests.property.random_commits import commits
from tests.table.builders import METADATA, PROTOCOL, add, make_log, memory_env, parquet_bytes, put_commit, state_actions


def facts(snapshot: Snapshot) -> object:
    canonical = snapshot.log.canonical
    files = {(canonical(a.path), a.deletion_vector, a.size_bytes, a.stats) for a in snapshot.live.adds()}
    assert len(files) == len(snapshot.live)
    return files, dict(snapshot.txns), dict(snapshot.domains), snapshot.version


def expected(state: State, canonical: object, version: int) -> object:
    files = {(canonical(a.path), a.deletion_vector, a.size_bytes, a.stats) for a in state.adds.values()}
    return files, state.txns, state.domains, version


@given(commits())
def test_columnar_replay_equals_the_reference(history):
    log = make_log(history)
    state = replay([[PROTOCOL, METADATA, *history[0]], *history[1:]], log.canonical)
    assert facts(load_snapshot(log)) == expected(state, log.canonical, len(history) - 1)


@given(commits(), st.data())
def test_order_inside_a_commit_does_not_matter(history, data):
    shuffled = [data.draw(st.permutations(actions)) for actions in history]
    assert facts(load_snapshot(make_log(history))) == facts(load_snapshot(make_log(shuffled)))


@given(commits(), st.data())
@settings(deadline=None)
def test_a_checkpoint_of_any_kind_changes_nothing(history, data):
    cut = data.draw(st.integers(0, len(history) - 1))
    kind = data.draw(
        st.sampled_from(["classic", "parts", "uuid json", "uuid parquet", "uuid sidecars", "classic sidecars"])
    )
    log = make_log(history)
    plain = facts(load_snapshot(log))
    store = log.env.store
    state = replay([[PROTOCOL, METADATA, *history[0]], *history[1 : cut + 1]], log.canonical)
    actions = state_actions(state)
    files = [a for a in actions if isinstance(a, Add | Remove)]
    rest: list[Action] = [a for a in actions if not isinstance(a, Add | Remove)]
    uuid = "80a083e8-7026-4e79-81be-64bd76c43a11"
    match kind:
        case "classic":
            written = {log_files.classic_checkpoint_name(cut): parquet_bytes(actions)}
        case "parts":
            halves = [rest + files[: len(files) // 2], files[len(files) // 2 :]]
            written = {
                log_files.multi_part_checkpoint_name(cut, n, 2): parquet_bytes(half)
                for n, half in enumerate(halves, start=1)
            }
        case "uuid json":
            written = {
                log_files.uuid_checkpoint_name(cut, uuid, "json"): encode_commit(
                    [CheckpointMetadata(version=cut), *actions]
                )
            }
        case "uuid parquet":
            written = {
                log_files.uuid_checkpoint_name(cut, uuid, "parquet"): parquet_bytes(
                    [CheckpointMetadata(version=cut), *actions]
                )
            }
        case _:
            store.put(f"{log_files.SIDECAR_FOLDER}/s1.parquet", parquet_bytes(files))
            top = [
                CheckpointMetadata(version=cut),
                *rest,
                Sidecar(path="s1.parquet", size_bytes=1, modification_time_ms=1),
            ]
            if kind == "classic sidecars":
                written = {log_files.classic_checkpoint_name(cut): parquet_bytes(top)}
            else:
                written = {log_files.uuid_checkpoint_name(cut, uuid, "json"): encode_commit(top)}
    for name, content in written.items():
        store.put(f"{log_files.LOG_FOLDER}/{name}", content)
    for version in range(cut):  # the checkpoint alone must do
        store.delete(log_files.commit_key(version))
    assert facts(load_snapshot(log)) == plain


@given(commits(), st.data())
def test_a_compacted_file_changes_nothing(history, data):
    log = make_log(history)
    plain = facts(load_snapshot(log))
    start = data.draw(st.integers(0, len(history) - 1))
    end = data.draw(st.integers(start, len(history) - 1))
    if start < end:
        compact_log(log, start, end)
    assert facts(load_snapshot(log)) == plain


@given(commits())
def test_a_snapshot_made_from_an_earlier_one_equals_one_made_from_nothing(history):
    env = memory_env()
    snapshot = None
    for version, actions in enumerate(history):
        put_commit(env, version, [PROTOCOL, METADATA, *actions] if version == 0 else actions)
        snapshot = load_snapshot(make_log([], env)) if snapshot is None else refresh(snapshot)
    assert snapshot is not None
    assert facts(snapshot) == facts(load_snapshot(make_log([], env)))


def test_a_second_add_of_a_file_replaces_what_is_known_of_it():
    first = add("a", stats='{"numRecords":1}')
    log = make_log([[first], [first.replace(stats='{"numRecords":2}')]])
    assert [a.stats for a in load_snapshot(log).live.adds()] == ['{"numRecords":2}']
