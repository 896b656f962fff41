"""Workload files: TOML in, TOML out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from codesign_opt.configuration import FileModel, read_toml, validated
from codesign_opt.workloads.transformer import Workload

# Products of a few sizes are element counts, which the model keeps in 63 bits.
Size = Annotated[int, Field(ge=1, le=100_000_000)]


class WorkloadFile(FileModel):
    """The shape of a transformer; a workload file holds the same keys."""

    name: str = Field(min_length=1, max_length=100, description="What reports call it.", examples=["gpt3-175b"])
    hidden: Size = Field(description="Width of the residual stream, elements.", examples=[12288])
    feedforward: Size = Field(description="Width of the MLP's inner layer, elements.", examples=[49152])
    sequence_length: Size = Field(description="Tokens in a sequence.", examples=[2048])
    attention_heads: Size = Field(description="Attention heads.", examples=[96])
    head_size: Size = Field(description="Width of one attention head, elements.", examples=[128])
    blocks: Size = Field(description="Transformer blocks.", examples=[96])
    source: str = Field("", description="Where the numbers come from.", examples=["arXiv 2005.14165"])


def read_workload(path: str | Path) -> Workload:
    """The workload that a TOML file describes.

    Raises:
        InputError: For a file that cannot be read, and for whatever is wrong in it.
    """
    return workload_from_dict(read_toml(path), where=str(path))


def workload_from_dict(data: dict[str, Any], *, where: str) -> Workload:
    """The workload that the content of a file describes; `where` names the file in messages.

    Raises:
        InputError: For whatever is wrong in it.
    """
    return workload_from_file(validated(WorkloadFile, data, where=where))


def workload_from_file(file: WorkloadFile) -> Workload:
    """The workload of a checked file."""
    return Workload(**file.model_dump(exclude={"source"}))


def workload_to_toml(workload: Workload) -> str:
    """A file that `read_workload` reads back to an equal workload."""
    return tomli_w.dumps(workload_to_dict(workload))


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """The content of a file: what differs from the defaults, and the sizes."""
    plain = {field.name: field.default for field in dataclasses.fields(Workload)}
    values = {name: value for name, value in dataclasses.asdict(workload).items() if value != plain[name]}
    if workload.query_key_norm.value != "none":
        values["query_key_norm"] = workload.query_key_norm.value
    for part in ("experts", "latent_attention"):
        if part in values:
            values[part] = {name: value for name, value in values[part].items() if value is not None}
    return values
