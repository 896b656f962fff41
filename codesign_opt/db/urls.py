"""Database addresses: what people type as an SQLAlchemy URL, and back as text that may be shown."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from codesign_opt.errors import StorageError, nearest

_MEMORY = ":memory:"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgresql+psycopg": "postgresql+psycopg"}
_EXAMPLES = "for example 'studies.db', 'sqlite:///studies.db' or 'postgresql://user:password@host/database'"


def parse_url(text: str) -> URL:
    """The URL behind `text`: a file path, `sqlite:///path`, `sqlite:///:memory:` or `postgresql://…`.

    Raises:
        StorageError: The scheme is unknown or the URL is malformed.
    """
    if "\0" in text or not text.strip():
        raise StorageError(f"not a database path or URL: {text!r}", _EXAMPLES)
    scheme, colon, rest = text.partition(":")
    if not rest.startswith("//") and not (colon and scheme in _DRIVERS):
        return URL.create("sqlite", database=text)
    if text.partition("?")[0].count("@") > 1:
        raise _malformed(text, "in user and password write %40 for @, %2F for / and %3A for :")
    if scheme not in _DRIVERS:
        raise StorageError(
            f"unknown database scheme '{scheme}' in {_without_password(text)}", nearest(scheme, _DRIVERS)
        )
    try:
        url = make_url(text).set(drivername=_DRIVERS[scheme])
    except (SQLAlchemyError, ValueError):
        raise _malformed(text, _EXAMPLES) from None
    if url.drivername == "sqlite":
        _require_plain_sqlite(url, text)
    return url


def describe(url: URL) -> str:
    """The address for messages: the path of a file, or the URL with its password hidden."""
    if url.drivername == "sqlite":
        return url.database or _MEMORY
    secrets = {key: "hidden" for key in url.query if "password" in key}
    shown = url.set(drivername="postgresql").update_query_dict(secrets)
    return shown.render_as_string(hide_password=True)


def file_path(url: URL) -> Path | None:
    """The file of an SQLite URL; None for a database in memory or on a server."""
    if url.drivername != "sqlite" or url.database in (None, _MEMORY):
        return None
    return Path(str(url.database))


def _require_plain_sqlite(url: URL, text: str) -> None:
    if url.host or url.username or not url.database:
        raise _malformed(text, "a file is 'sqlite:///relative/path.db' or 'sqlite:////absolute/path.db'")
    if url.query:
        raise _malformed(text, "an SQLite URL takes no options after '?'")


def _malformed(text: str, hint: str) -> StorageError:
    return StorageError(f"malformed database URL {_without_password(text)}", hint)


def _without_password(text: str) -> str:
    hidden = re.sub(r"://.*@", "://***@", text, flags=re.DOTALL)
    return re.sub(r"(password=)[^&]*", r"\1***", hidden)
