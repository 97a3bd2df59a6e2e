"""The workflows of the repository run what they were reviewed to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

_USED = re.compile(r"uses: (?P<what>\S+)(?P<comment>.*)")
_PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")
_RUN = re.compile(r"run: (?P<script>scripts/\S+)")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(workflow: Path) -> None:
    """A tag can be moved to other code; a commit cannot."""
    used = list(_USED.finditer(workflow.read_text()))
    assert used
    loose = [one["what"] for one in used if not _PINNED.fullmatch(one["what"]) or not one["comment"].startswith(" # v")]
    assert loose == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_do_no_more_than_they_need(workflow: Path) -> None:
    text = workflow.read_text()
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
    assert len(re.findall("timeout-minutes", text)) == len(re.findall("runs-on", text))
    assert all((ROOT / one["script"]).exists() for one in _RUN.finditer(text))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_environments_are_made_with_the_python_that_was_set_up(workflow: Path) -> None:
    """Otherwise the newest Python of the machine makes all of them, whatever the matrix says."""
    assert re.search(r"^env:\n  PYTHON: python\b", workflow.read_text(), re.MULTILINE)


def test_a_release_is_of_the_version_that_its_tag_says() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert 'scripts/release-files dist "${GITHUB_REF_NAME#v}"' in text
