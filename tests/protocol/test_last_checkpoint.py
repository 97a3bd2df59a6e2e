import hashlib

from tahoe.protocol.log.last_checkpoint import (
    LastCheckpoint,
    canonical_form,
    encode_last_checkpoint,
    parse_last_checkpoint,
)

EXAMPLE = (
    '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": '
    '["v5", "v6", "v7"]}]}}'
)


def test_the_worked_example_of_the_protocol():
    assert canonical_form(EXAMPLE) == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,"k1"+"k3"+2+"k4"="v4",'
        '"k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7"'
    )
    assert hashlib.md5(canonical_form(EXAMPLE).encode()).hexdigest() == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_what_is_written_is_read_back():
    hint = LastCheckpoint(version=10, size=42, size_bytes=1234, num_of_add_files=7)
    assert parse_last_checkpoint(encode_last_checkpoint(hint)) == hint


def test_a_hint_that_is_broken_is_no_hint():
    good = encode_last_checkpoint(LastCheckpoint(version=10, size=42))
    assert parse_last_checkpoint(good.replace(b'"version":10', b'"version":11')) is None
    assert parse_last_checkpoint(good[:-5]) is None
    assert parse_last_checkpoint(b'{"version":1,"version":2}') is None
    assert parse_last_checkpoint(b"[]") is None
    assert parse_last_checkpoint(b"\xff\xfe") is None
