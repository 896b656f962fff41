"""Database addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign_opt.db.urls import describe, file_path, parse_url
from codesign_opt.errors import StorageError


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("studies.db", Path("studies.db")),
        ("runs/what? #1 %20.db", Path("runs/what? #1 %20.db")),
        (r"C:\studies.db", Path(r"C:\studies.db")),
        ("sqlite:///studies.db", Path("studies.db")),
        ("sqlite:////var/studies.db", Path("/var/studies.db")),
        ("sqlite:///:memory:", None),
        (":memory:", None),
    ],
)
def test_path_and_sqlite_url_name_the_same_file(text: str, path: Path | None) -> None:
    url = parse_url(text)
    assert url.drivername == "sqlite"
    assert file_path(url) == path
    assert describe(url) == (str(path) if path else ":memory:")


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_postgresql_goes_through_psycopg_and_is_shown_without_password(scheme: str) -> None:
    url = parse_url(f"{scheme}://me:s3cr%40t@db.example:5433/studies?sslpassword=alsosecret&sslmode=require")
    assert (url.drivername, url.password, url.port) == ("postgresql+psycopg", "s3cr@t", 5433)
    assert file_path(url) is None
    shown = describe(url)
    assert shown.startswith("postgresql://me:***@db.example:5433/studies?")
    assert "sslmode=require" in shown
    assert "s3cr" not in shown
    assert "alsosecret" not in shown


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "not a database path", "sqlite:///studies.db"),
        ("   ", "not a database path", "sqlite:///studies.db"),
        ("a\0b.db", "not a database path", "sqlite:///studies.db"),
        ("postgres://me:secret@host/x", "unknown database scheme 'postgres'", "did you mean 'postgresql'"),
        ("mysql://me:secret@host/x", "unknown database scheme 'mysql'", "allowed: sqlite, postgresql"),
        ("sqlite:studies.db", "malformed", "sqlite:///"),
        ("sqlite:/studies.db", "malformed", "sqlite:///"),
        ("sqlite://studies.db", "malformed", "sqlite:///relative/path.db"),
        ("sqlite:///", "malformed", "sqlite:///relative/path.db"),
        ("sqlite:///a.db?mode=ro", "malformed", "no options"),
        ("postgresql:host/x", "malformed", "postgresql://user:password@host/database"),
        ("postgresql://me:secret@host:port/x", "malformed", "postgresql://user:password@host/database"),
        ("postgresql://me:sec@re/t@host/x", "malformed", "write %40 for @"),
        ("mysql://me:sec@re/t@host/x", "malformed", "write %40 for @"),
    ],
)
def test_unusable_address_is_explained_without_its_password(text: str, message: str, hint: str) -> None:
    with pytest.raises(StorageError) as caught:
        parse_url(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "sec" not in str(caught.value)
