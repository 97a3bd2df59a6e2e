"""Threads of the JVM that ask Python come and go, in servers, streams and broadcasts; what they need in the driver's
Python must go too.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tahoe.spark.jvm.gateway import Gateway

pytestmark = pytest.mark.every_spark

# See docs/TESTING.md.
QUERIES = int(os.environ.get("TAHOE_THREADS", "20"))

# How many connections may wait for the next thread, with a thread of Python's each, and one more for what else goes on
# in the suite.
SLACK = 9


@pytest.fixture(scope="module")
def rows(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("threads") / "t")
    spark.range(10).write.format("delta").save(path)
    return spark.read.format("delta").load(path)


@pytest.fixture(scope="module")
def ask(spark, rows):
    gateway = Gateway(spark)
    gateway.compile(Path(__file__).parent / "java", provides="threads.Asking")
    asking = gateway.java_class("threads.Asking")
    return lambda threads, together=1: asking.each(rows._jdf, threads, together)


def _used() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def _settles(before: tuple[int, int]) -> bool:
    """Whether hardly more is in use than before; a connection that is closed ends its thread a moment later."""
    for _ in range(100):
        threads, descriptors = _used()
        if threads <= before[0] + SLACK and descriptors <= before[1] + 2 * SLACK:
            return True
        time.sleep(0.05)
    return False


def test_threads_of_the_jvm_leave_nothing_behind(ask):
    ask(QUERIES // 4)
    before = _used()
    ask(QUERIES)
    assert _settles(before), f"{before} before, {_used()} after"


def test_threads_that_ask_together_leave_a_few_connections(ask):
    before = _used()
    ask(32, 16)
    assert _settles(before), f"{before} before, {_used()} after"


def test_a_thread_of_pythons_is_asked_back_in_itself(rows, monkeypatch):
    """Only there does Ctrl-C reach what is done for it."""
    asked = []
    of = Gateway.of.__func__
    monkeypatch.setattr(
        Gateway, "of", classmethod(lambda kind, session: asked.append(threading.current_thread()) or of(kind, session))
    )
    rows.limit(2)._jdf.queryExecution().executedPlan()
    assert set(asked) == {threading.current_thread()}


def test_long_questions_are_sent_at_once(spark, rows):
    """py4j writes a message of more than 8 KB in pieces, of which the second one would wait 40 ms for an answer to the
    first.
    """
    rows.limit(2)._jdf.queryExecution().executedPlan()
    gateway = Gateway(spark)
    classes = gateway.jvm.java.lang.Class
    connections = classes.forName("py4j.GatewayServer").getDeclaredField("connections")
    thread = classes.forName("py4j.ClientServerConnection").getDeclaredField("jvmThread")
    connections.setAccessible(True)
    thread.setAccessible(True)
    this_thread = gateway.jvm.java.lang.Thread.currentThread()
    mine = [connection for connection in connections.get(gateway.server) if thread.get(connection) == this_thread]
    assert [connection.getSocket().getTcpNoDelay() for connection in mine] == [True]
