"""Files that users write: reading TOML, and checking it against a model, with errors that name file, key and value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from codesign_opt.errors import InputError, nearest

MAX_BYTES = 10_000_000
"""A larger file is refused: it is not a description that somebody wrote."""

TAG = "<"
"""Tags of unions start with this, so that messages can leave them out of a key's path."""


class FileModel(BaseModel):
    """A table in a file: no other keys than its own, no conversion between types, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for key in data:
            if key not in cls.model_fields:
                raise PydanticCustomError(
                    "unknown_key", "unknown key", {"key": str(key), "keys": list(cls.model_fields)}
                )
        for key, field in cls.model_fields.items():
            if field.is_required() and key not in data:
                example = (field.examples or [None])[0]
                raise PydanticCustomError("missing_key", "missing key", {"key": key, "example": example})
        return data


@dataclass(frozen=True)
class Parsed:
    """Annotation of a model's field that `parse(value, where=...)` reads.

    Attributes:
        parse: Returns the field's value; raises InputError, whose message starts with `where`.
        form: What is written in the file, for the reference: "quantity in B".
    """

    parse: Callable[..., Any]
    form: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"format": self.form}

    def _validate(self, value: Any) -> Any:
        try:
            return self.parse(value, where="")
        except InputError:
            # The key's path is not known here; `validated` asks again with it.
            raise PydanticCustomError("parsed", "not readable", {"parse": self.parse}) from None


def one_of(words: type[Enum]) -> Parsed:
    """Annotation of a field that holds one of the words of an enumeration."""
    return Parsed(partial(_parse_word, words=words), ", ".join(f'"{word.value}"' for word in words))


def _parse_word(value: Any, *, where: str, words: type[Enum]) -> Enum:
    allowed = [word.value for word in words]
    if value not in allowed:
        raise InputError(f"{where}: {value!r} is not allowed", nearest(str(value), allowed))
    return words(value)


Model = TypeVar("Model", bound=FileModel)

_PLAIN_WORDS = {
    "List should have at least 1 item after validation, not 0": "at least one value",
    "Dictionary should have at least 1 item after validation, not 0": "at least one entry",
    "String should have at least 1 character": "it may not be empty",
    "Input should": "it should",
    "a valid boolean": "true or false",
    "a valid integer": "a whole number",
    "a valid list": "a list",
    "a valid string": "text in quotes",
}


def read_text(path: str | Path) -> str:
    """The text of a file.

    Raises:
        InputError: Where it is missing, a directory, unreadable, larger than `MAX_BYTES`, empty, or no UTF-8 text.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a directory", "give the file inside it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}", "check the path and its permissions") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES // 1_000_000} MB", "is this the right file?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8 text", "is this the right file?") from None
    if "\0" in text:
        raise InputError(f"{path}: is a binary file", "is this the right file?")
    if not text.strip():
        raise InputError(f"{path}: is empty", "see docs/study-file.md for what it may hold")
    return text


def read_toml(path: str | Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        InputError: As `read_text`, and for a syntax error, naming its line.
    """
    try:
        return tomllib.loads(read_text(path))
    except RecursionError:
        raise InputError(f"{path}: nested too deeply", "is this the right file?") from None
    except ValueError as error:
        raise InputError(f"{path}: not TOML: {error}", 'text needs quotes: key = "value"') from None


def validated(model: type[Model], data: Any, *, where: str) -> Model:
    """`data`, as read from a file, as `model`.

    Args:
        model: The table's model.
        data: What TOML or JSON gave.
        where: File, and key path of `data` in it, for messages.

    Raises:
        InputError: For the first thing that is wrong; further wrong keys are named after it.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [_explained(details, data, where) for details in error.errors(include_url=False)]
    first, others = problems[0], list(dict.fromkeys(key for key, _ in problems[1:]))
    also = f"; also wrong: {', '.join(others)}" if others else ""
    raise InputError(f"{first[1].message}{also}", first[1].hint)


def flattened(data: Any, leaves: frozenset[str] = frozenset()) -> Any:
    """Nested tables as one table of dotted paths; a table with a key in `leaves` is a value, not a level.

    TOML reads an unquoted a.b = 1 as nested tables; with this it means the same as "a.b" = 1.
    """
    if not isinstance(data, dict):
        return data
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict) and value and not leaves & value.keys():
            flat |= {f"{key}.{path}": inner for path, inner in flattened(value, leaves).items()}
        else:
            flat[key] = value
    return flat


def at(where: str, *keys: str | int) -> str:
    """`where` with keys added: ("my.toml", "price", "processor") is "my.toml: price.processor"."""
    path = ".".join(str(key) for key in keys)
    if not where or not path:
        return where or path
    return f"{where}{'.' if ': ' in where else ': '}{path}"


def shown(value: Any) -> str:
    """A value as messages show it, shortened."""
    if isinstance(value, Mapping):
        return "a table"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _explained(details: ErrorDetails, data: Any, where: str) -> tuple[str, InputError]:
    """Key path and error of one of pydantic's findings."""
    keys = _path(details["loc"], data)
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind in ("unknown_key", "missing_key"):
        keys.append(context["key"])
    place = at(where, *keys)
    if kind == "parsed":
        try:
            context["parse"](value, where=place)
        except InputError as error:
            return ".".join(keys), error
    if kind == "unknown_key":
        return ".".join(keys), InputError(f"{place}: unknown key", nearest(context["key"], context["keys"]))
    if kind == "missing_key":
        return ".".join(keys), InputError(f"{place}: missing", _example(keys[-1], context["example"]))
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        return ".".join(keys), InputError(f"{place}: {shown(value)} is not allowed", nearest(str(value), allowed))
    return ".".join(keys), InputError(f"{place}: {shown(value)} is not allowed", _expectation(kind, details["msg"]))


def _path(location: tuple[int | str, ...], data: Any) -> list[str]:
    """The keys of a finding's location, without the tags of unions and the index of a value given without its list."""
    keys = []
    for part in location:
        if isinstance(part, str) and (part.startswith(TAG) or part == "[key]"):
            continue
        if isinstance(part, int) and not isinstance(data, list):
            continue
        keys.append(str(part))
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = data[part]
    return keys


def _expectation(kind: str, message: str) -> str:
    if kind in ("model_type", "dict_type"):
        return "a table of keys and values"
    for words, plain in _PLAIN_WORDS.items():
        message = message.replace(words, plain)
    return message


def _example(key: str, example: Any) -> str:
    """How a missing key may be written; tables are shown in the reference."""
    if isinstance(example, str) and example.startswith("see "):
        return f"{example} in docs/study-file.md"
    return f"for instance {key} = {json.dumps(example)}"
