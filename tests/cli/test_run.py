"""`tahoe run` without Spark: the program is the one that would have run, as it would have run, and no other Python is
harmed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tahoe.cli import app
from tahoe.errors import (
    ClusterModeError,
    ProgramNotExecutableError,
    ProgramNotFoundError,
    ProgramWithoutPythonError,
    ProgramWithoutTahoeError,
    PythonOptionError,
)
from tahoe.programs.launch import STARTUP, command_of, environment

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = [
    sys.executable,
    "-c",
    "import sys; from tahoe.programs.launch import run_program; run_program(sys.argv[1:])",
]  # as the command, but starts faster
WITHOUT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

SAYS = """
import json, os, sys
found = {
    "argv": sys.argv, "first": sys.path[0], "path": os.environ.get("PYTHONPATH"), "hooked": hasattr(sys.meta_path[0], "hooks_pyspark"),
    "imported": sorted(name for name in sys.modules if name.split(".")[0] in ("tahoe", "pyspark", "delta")),
}
print(json.dumps(found))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "says.py").write_text(SAYS)
    return folder / "says.py"


def started(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*LAUNCH, *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**WITHOUT, **variables},
        input="from stdin",
        timeout=60,
        check=False,
    )


def said(*words: str | Path, cwd: Path, **variables: str) -> dict[str, Any]:
    done = started(*words, cwd=cwd, **variables)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_program_gets_its_arguments_and_its_own_path(program: Path) -> None:
    """And Python is hooked, but nothing is imported for it."""
    found = said("says.py", "--help", "-m", "a b", cwd=program.parent)
    assert found == {
        "argv": ["says.py", "--help", "-m", "a b"],
        "first": str(program.parent),
        "path": str(STARTUP),
        "hooked": True,
        "imported": [],
    }
    assert said(program, cwd=ROOT)["first"] == str(program.parent)
    assert said("-m", "says", "--path", cwd=program.parent)["argv"][1:] == ["--path"]
    assert said("-u", "says.py", cwd=program.parent)["argv"] == ["says.py"]
    assert said("python", "says.py", cwd=program.parent)["hooked"]
    assert said("says.py", cwd=program.parent, PYTHONSAFEPATH="1")["hooked"]


def test_what_was_on_the_path_stays(program: Path) -> None:
    before = f"{program.parent.parent}/a folder{os.pathsep}"
    assert said("says.py", cwd=program.parent, PYTHONPATH=before)["path"] == f"{STARTUP}{os.pathsep}{before}"
    assert environment(environment({"PYTHONPATH": before})) == environment({"PYTHONPATH": before})
    assert environment({"PYTHONPATH": ""})["PYTHONPATH"] == str(STARTUP), "an empty entry would be the current folder"


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_programs(code: int, tmp_path: Path) -> None:
    assert started("-c", f"raise SystemExit({code})", cwd=tmp_path).returncode == code


def test_standard_input_and_output_are_the_programs(tmp_path: Path) -> None:
    done = started("-c", "import sys; print(sys.stdin.read(), end=''); print('told', file=sys.stderr)", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("from stdin", "told\n")
    assert started("bash", "-c", "yes | head -1", cwd=tmp_path).stdout == "y\n", (
        "a program that is no Python ends with its pipe"
    )


WAITS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(11))
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(12)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 11), (signal.SIGINT, 12), (signal.SIGKILL, -9)])
def test_a_signal_reaches_the_program(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*LAUNCH, "-c", WAITS], stdout=subprocess.PIPE, text=True, env=WITHOUT, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(timeout=30) == code


def test_the_sitecustomize_that_was_there_runs(program: Path, tmp_path: Path) -> None:
    """Once in each process, this one's and the program's, and under its name."""
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nprint('theirs', __name__, flush=True)\nMARK = 1\n")
    code = "import sitecustomize, sys; print(sitecustomize.MARK, hasattr(sys.meta_path[0], 'hooks_pyspark'))"
    done = started("-c", code, cwd=program.parent, PYTHONPATH=f"{tmp_path}")
    assert done.stdout == "theirs sitecustomize\ntheirs sitecustomize\n1 True\n"
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    done = started(
        "-c",
        "import sys; print(hasattr(sys.meta_path[0], 'hooks_pyspark'))",
        cwd=program.parent,
        PYTHONPATH=f"{tmp_path}",
    )
    assert done.stdout == "True\n"
    assert "Error in sitecustomize" in done.stderr
    assert "theirs" in done.stderr


def other_python(tmp_path: Path) -> Path:
    """A Python that has no tahoe, with the module `delta` and a little `pyspark` of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True, timeout=120)
    (packages,) = (tmp_path / "other" / "lib").glob("python*/site-packages")
    (packages / "delta.py").write_text("MINE = 1\n")
    for module in ("__init__", "sql/__init__", "core/__init__"):
        (packages / "pyspark" / module).parent.mkdir(exist_ok=True)
        (packages / "pyspark" / f"{module}.py").touch()
    (packages / "pyspark" / "sql" / "session.py").write_text(
        "class SparkSession:\n    def __init__(self, sc): self.sc = sc\n    class Builder:\n"
        "        def getOrCreate(self): return SparkSession(1)\n        def create(self): return SparkSession(2)\n"
    )
    return tmp_path / "other" / "bin" / "python"


def test_a_python_without_tahoe_is_not_harmed(tmp_path: Path) -> None:
    python = other_python(tmp_path)
    code = (
        "import delta; from pyspark.sql.session import SparkSession as S; print(delta.MINE, "
        "S.Builder().getOrCreate().sc, S(3).sc)"
    )
    done = started("bash", "-c", f'{python} -c "{code}"', cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("1 1 3\n", "")
    with pytest.raises(ProgramWithoutTahoeError, match="another Python"):
        command_of([str(python), "x.py"])
    script = tmp_path / "tool"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    with pytest.raises(ProgramWithoutTahoeError, match="other/bin/python"):
        command_of([str(script)])
    script.write_text(
        f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
    )  # as pip writes it where a path is long
    with pytest.raises(ProgramWithoutTahoeError, match="other/bin/python"):
        command_of([str(script)])
    isolated = started(
        "-c",
        f"import subprocess; subprocess.run([{sys.executable!r}, '-I', '-c', 'print(1)'], check=True)",
        cwd=tmp_path,
    )
    assert (isolated.stdout, isolated.stderr) == ("1\n", "")


DELTA = """
import sys, delta
print(getattr(delta, "MINE", None) or delta.__path__)
"""


def test_a_module_of_the_program_called_delta_stays(tmp_path: Path) -> None:
    """But a folder with data does not hide the package."""
    (tmp_path / "program.py").write_text(DELTA)
    (tmp_path / "delta").mkdir()
    shutil.copytree(
        ROOT / "tests" / "cli", tmp_path / "delta" / "part=1", ignore=lambda *_: os.listdir(ROOT / "tests" / "cli")
    )
    assert "tahoe/delta" in started("program.py", cwd=tmp_path).stdout
    (tmp_path / "delta.py").write_text("MINE = 1\n")
    assert started("program.py", cwd=tmp_path).stdout == "1\n"


def test_databricks_is_left_alone(program: Path) -> None:
    assert not said("says.py", cwd=program.parent, DATABRICKS_RUNTIME_VERSION="17.0")["hooked"]


@pytest.mark.parametrize(
    "words", [["-I", "x.py"], ["-sE", "x.py"], ["python", "-S", "x.py"], ["-X", "dev", "-I", "-m", "x"]]
)
def test_a_python_that_could_not_be_hooked_is_refused(words: list[str]) -> None:
    with pytest.raises(PythonOptionError):
        command_of(words)


def test_options_of_the_program_are_not_pythons() -> None:
    assert command_of(["-m", "x", "-I"])[1:] == ["-m", "x", "-I"]
    assert command_of(["-X", "importtime", "x.py", "-E"])[1:] == ["-X", "importtime", "x.py", "-E"]
    assert command_of(["-c", "pass", "-S"])[1:] == ["-c", "pass", "-S"]


def test_programs_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for missing in ("no-such-program", "missing.py", "./missing.py"):
        with pytest.raises(ProgramNotFoundError, match=missing):
            command_of([missing])
    Path("job").write_text("print(1)")
    with pytest.raises(ProgramNotExecutableError, match="tahoe run python job"):
        command_of(["job"])
    Path("package").mkdir()
    with pytest.raises(ProgramNotFoundError, match="package"):
        command_of(["package"])
    Path("package/__main__.py").touch()
    assert command_of(["package", "x"]) == [sys.executable, "package", "x"]
    with pytest.raises(ProgramWithoutPythonError, match="spark-sql"):
        command_of(["/opt/spark/bin/spark-sql", "-e", "select 1"])


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "bin" / "spark-submit"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    (tmp_path / "conf").mkdir()
    return path


def test_spark_submit_in_cluster_mode_is_refused(spark_submit: Path) -> None:
    for words in (
        ["--deploy-mode", "cluster"],
        ["--conf", "spark.submit.deployMode=cluster"],
        ["--deploy-mode=cluster"],
    ):
        with pytest.raises(ClusterModeError):
            command_of([str(spark_submit), *words, "x.py"])
    (spark_submit.parents[1] / "conf" / "spark-defaults.conf").write_text("spark.submit.deployMode cluster\n")
    with pytest.raises(ClusterModeError):
        command_of([str(spark_submit), "x.py"])
    assert command_of([str(spark_submit), "--deploy-mode", "client", "x.py"])[1:] == ["--deploy-mode", "client", "x.py"]


def test_spark_submit_starts_without_the_reference(spark_submit: Path) -> None:
    (spark_submit.parents[1] / "conf" / "spark-defaults.conf").write_text(
        "spark.jars.packages io.delta:delta-spark_2.13:4.0.0\n"
    )
    words = [str(spark_submit), "--conf", "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension", "x.py", "1"]
    assert command_of(words)[1:] == ["--conf", "spark.jars.packages=", "x.py", "1"]


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All that follows the program is the program's, its --help too."""
    ran: list[tuple[list[str], bool]] = []
    monkeypatch.setattr(
        import_module("tahoe.cli.run"), "run_program", lambda words, *, native: ran.append((words, native))
    )
    for words in (["dbt", "--help"], ["-m", "pytest", "-x", "--json"], ["x.py", "--", "-h"]):
        app(["run", *words], standalone_mode=False)
        assert ran.pop() == (words, False)
    app(["run", "--native", "x.py", "--native"], standalone_mode=False)
    assert ran.pop() == (["x.py", "--native"], True)
    app(["run", "--path"], standalone_mode=False)
    assert capsys.readouterr().out == f"{STARTUP}\n"
    assert app(["run", "--help"], standalone_mode=False) == 0
    assert app(["run"], standalone_mode=False) == 2
    assert ran == []


def test_a_name_that_is_no_program_is_told_in_one_line() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tahoe"), "run", "nothing-like-it"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("[DELTA_PROGRAM_NOT_FOUND]")
    assert "Traceback" not in done.stderr


def test_a_file_without_an_interpreter_is_told_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("exit 3\n")
    script.chmod(0o755)
    tahoe = [Path(sys.executable).with_name("tahoe"), "run"]
    done = subprocess.run([*tahoe, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr[:30]) == (2, "[DELTA_PROGRAM_NOT_EXECUTABLE]")
    assert subprocess.run([*tahoe, "bash", script], timeout=60, check=False).returncode == 3
