"""`codesign-opt catalog`: the workloads, systems and studies that are shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign_opt.cli import options

if TYPE_CHECKING:
    from codesign_opt.catalog.lookup import Shelf

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show the shipped workloads, systems and studies.")

_SHELF = typer.Argument(
    metavar="|".join(options.SHELVES), help="Only these; all by default.",
    autocompletion=options.words(options.SHELVES),
)  # fmt: skip
_NAME = typer.Argument(
    metavar="NAME", help="Name of a workload, system or study; or path of a workload file or a model's config.json.",
    autocompletion=lambda incomplete: [
        name for shelf in options.SHELVES for name in options.shipped(shelf)(incomplete)
    ],
)  # fmt: skip


@app.command("list", epilog=options.examples("codesign-opt catalog list", "codesign-opt catalog list systems"))
def list_entries(
    shelf: Annotated[str | None, _SHELF] = None,
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """List what is shipped, with a line about each."""
    from codesign_opt.catalog import describe, names
    from codesign_opt.cli.catalog_output import system_lines
    from codesign_opt.cli.output import write, write_json
    from codesign_opt.cli.values import choice

    chosen = options.SHELVES if shelf is None else (choice(shelf, "catalog list", options.SHELVES),)
    if json:
        write_json({word: {name: describe(word, name) for name in names(word)} for word in chosen})
        return
    size = max(len(name) for word in chosen for name in names(word))
    lines = []
    for word in chosen:
        if word == "systems":
            lines += [*system_lines(names(word), size), ""]
        else:
            lines += [f"{word}:", *_entries({name: describe(word, name) for name in names(word)}, size), ""]
    write("\n".join(lines[:-1]))


@app.command(
    epilog=options.examples(
        "codesign-opt catalog show gpt3-175b",
        "codesign-opt catalog show price-study > my-study.toml",
        "codesign-opt catalog show Llama-3-8B/config.json > llama.toml",
    )
)
def show(
    name: Annotated[str, _NAME],
    json: Annotated[bool, options.JSON] = False,
) -> None:
    """Show a file of the catalogue, to start one's own from.

    Comments below it say where each value of a system comes from, and how many parameters a workload has.
    """
    from codesign_opt.cli.output import write, write_json

    shelf = _shelf(name)
    if json:
        write_json({"name": name, "shelf": shelf, **_content(shelf, name)})
    else:
        write("\n".join([_text(shelf, name).rstrip("\n"), *_remarks(shelf, name)]))


def _shelf(name: str) -> Shelf:
    """Where a name stands; a path is a workload's."""
    from codesign_opt.catalog import names
    from codesign_opt.errors import InputError, nearest

    shelf = next((word for word in options.SHELVES if name in names(word)), None)
    if shelf is not None:
        return shelf
    if name.endswith((".json", ".toml")):
        return "workloads"
    known = [entry for word in options.SHELVES for entry in names(word)]
    hint = nearest(name, known)
    raise InputError(
        f"unknown workload, system or study '{name}'",
        hint if hint.startswith("did") else "'codesign-opt catalog list' shows all",
    )


def _text(shelf: Shelf, name: str) -> str:
    """The file of a name; for a path, the workload file that says the same."""
    from codesign_opt.catalog import names, resolve_workload, text

    if name in names(shelf):
        return text(shelf, name)
    from codesign_opt.workloads.files import workload_to_toml

    return workload_to_toml(resolve_workload(name))


def _entries(entries: dict[str, str], size: int) -> list[str]:
    """A line for each entry, continued below its description where it is too long."""
    import textwrap

    from codesign_opt.cli.output import width

    lines: list[str] = []
    for name, description in entries.items():
        first, rest = f"  {name:<{size}}  ", " " * (size + 4)
        lines += textwrap.wrap(
            description, max(width(), size + 30), initial_indent=first, subsequent_indent=rest, break_long_words=False
        )
    return lines


def _remarks(shelf: Shelf, name: str) -> list[str]:
    """Comments below a file: a workload's parameters; a system's sources, where it names any for single values."""
    from codesign_opt.catalog import resolve_system, resolve_workload, system_notes, workload_notes
    from codesign_opt.cli.catalog_output import parameter_lines, source_lines

    if shelf == "workloads":
        return ["", *parameter_lines(resolve_workload(name), workload_notes(name))]
    if shelf != "systems" or not system_notes(name).sources:
        return []
    return ["", *source_lines(resolve_system(name), system_notes(name))]


def _content(shelf: Shelf, name: str) -> dict[str, Any]:
    """A workload's sizes and parameters, a system's SI values with their sources, or a study's specification."""
    from codesign_opt.catalog import describe, resolve_system, resolve_workload, study_path, system_notes

    about = {"description": describe(shelf, name)}
    if shelf == "workloads":
        from codesign_opt.catalog import workload_notes
        from codesign_opt.cli.catalog_output import workload_document

        return {**about, **workload_document(resolve_workload(name), workload_notes(name))}
    if shelf == "systems":
        from codesign_opt.cli.catalog_output import system_document

        return {**about, **system_document(resolve_system(name), system_notes(name))}
    from codesign_opt.studies.canonical import specification_to_dict
    from codesign_opt.studies.specification import read_study

    return {**about, "specification": specification_to_dict(read_study(study_path(name)))}
