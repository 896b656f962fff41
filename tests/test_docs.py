"""Every command that a document shows works as it is shown."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_COMMAND = re.compile(r"^    \$ (codesign-opt (?:[^\\\n]|\\\n)*)$", re.MULTILINE)
_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    found = _COMMAND.findall(page.read_text())
    return [shlex.split(command.replace("\\\n", " "), comments=True)[1:] for command in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_work_in_an_empty_folder(page: Path, tmp_path: Path) -> None:
    for name, content in _FILE.findall(page.read_text()):
        (tmp_path / name).write_text(content)
    for arguments in commands(page):
        run = subprocess.run(
            [sys.executable, "-m", "codesign_opt", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, f"codesign-opt {shlex.join(arguments)}\n{run.stderr}"
        assert run.stdout.strip() or "--output" in arguments
    for name, _ in _FILE.findall(page.read_text()):
        if name.endswith(".py"):
            subprocess.run([sys.executable, name], cwd=tmp_path, check=True, capture_output=True)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_says_in_one_line_how_to_run_the_tests() -> None:
    lines = [line for line in (ROOT / "README.md").read_text().splitlines() if line.endswith("-m pytest")]
    assert len(lines) == 1
    assert "requirements.lock" in lines[0]
