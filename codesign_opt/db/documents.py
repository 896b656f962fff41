"""Documents as JSON text, and text that every database can hold.

The columns are plain text, the same in both databases; encoding happens before SQLAlchemy sees the rows, so that
a value that cannot be stored is refused by name and nothing is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def encode(document: Mapping[str, Any], where: str) -> str:
    """The document as JSON text in ASCII.

    Raises:
        ValueError: Something in it is not finite or not JSON; the message names `where`, the key and the value.
    """
    try:
        return _ENCODER.encode(document)
    except (TypeError, ValueError) as error:
        raise ValueError(_offender(document, where) or f"{where}: {error}") from None


def decode(text: str) -> dict[str, Any]:
    """The document behind JSON text."""
    document: dict[str, Any] = json.loads(text)
    return document


def require_text(text: str, where: str) -> str:
    """The text itself.

    Raises:
        ValueError: It holds a NUL character (which PostgreSQL cannot store) or half of a surrogate pair.
    """
    if "\0" in text:
        raise ValueError(f"{where} holds a NUL character: {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} cannot be written as UTF-8: {text!r}") from None
    return text


def _as_dict(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


# Made once: `json.dumps` would make one for each document.
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_as_dict)


def _offender(value: Any, where: str) -> str:
    """What is wrong with the first part that JSON cannot hold; "" if nothing is."""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{where} is {value}; only finite numbers are stored"
    if value is None or isinstance(value, str | int):
        return ""
    if isinstance(value, Mapping):
        return next(filter(None, (_offender(part, f"{where}[{key!r}]") for key, part in value.items())), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (_offender(part, f"{where}[{index}]") for index, part in enumerate(value))), "")
    return f"{where} is a {type(value).__name__}, which JSON cannot hold: {value!r}"
