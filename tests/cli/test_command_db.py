"""`codesign-opt db`: the schema of the database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any


def test_a_sound_database(run: Any) -> None:
    run("search", "study.toml", "--budget", "2", "--quiet")
    result = run("db", "check")
    assert result.status == 0
    assert result.out.splitlines()[-1] == "sound"
    document = run("db", "check", "--json").document
    assert document["ok"] is True
    assert document["rows"]["codesign_evaluations"] == 2


def test_nothing_to_upgrade(run: Any) -> None:
    run("search", "study.toml", "--budget", "1", "--quiet")
    assert run("db", "upgrade").out.endswith("nothing to do\n")


def test_wrong_counters_are_found(run: Any, folder: Path) -> None:
    run("search", "study.toml", "--budget", "2", "--quiet")
    with sqlite3.connect(folder / "codesign-opt.db") as connection:
        connection.execute("UPDATE codesign_studies SET trials = 7")
    connection.close()
    result = run("db", "check")
    assert result.status == 2
    assert "study 'study' counts 7 trials, but has 2" in result.out
    assert "restore a backup" in result.err
    assert run("db", "check", "--json").document["ok"] is False
