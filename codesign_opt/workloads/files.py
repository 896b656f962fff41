"""Workload files: TOML in, TOML out."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from codesign_opt.configuration import FileModel, one_of, read_toml, validated
from codesign_opt.errors import InputError
from codesign_opt.workloads.consistency import check_workload
from codesign_opt.workloads.transformer import Experts, LatentAttention, QueryKeyNorm, Workload

# Products of a few sizes are element counts, which the model keeps in 63 bits.
Size = Annotated[int, Field(ge=1, le=100_000_000)]
SizeOrNone = Annotated[int, Field(ge=0, le=100_000_000)]
"""A size, or 0 for what is not there."""


class LatentAttentionFile(FileModel):
    """Multi-head latent attention: queries, keys and values made from narrow vectors."""

    query_rank: SizeOrNone = Field(
        description="Width of the queries' latent vector; 0 where queries come from the residual stream.",
        examples=[1536],
    )
    key_value_rank: Size = Field(description="Width of the latent vector of keys and values.", examples=[512])
    rotary_size: Size = Field(
        description="Width of a query's rotary part, and of the rotary key that all heads share; `head_size` is the "
        "rest.",
        examples=[64],
    )
    value_size: Size = Field(description="Width of one head's values.", examples=[128])


class ExpertsFile(FileModel):
    """A mixture of experts in place of the MLP."""

    count: Size = Field(description="Routed experts of a block.", examples=[256])
    top_k: Size = Field(description="Routed experts that a token visits.", examples=[8])
    feedforward: Size = Field(description="Inner width of one routed expert.", examples=[2048])
    shared_feedforward: SizeOrNone = Field(
        0, description="Inner width of all shared experts together; 0 for none.", examples=[2048]
    )
    shared_gate: bool = Field(False, description="A gate weighs the shared experts' output.", examples=[True])
    router_bias: bool = Field(False, description="The router adds a trained bias for each expert.", examples=[True])
    expert_bias: bool = Field(False, description="The experts' products have biases.", examples=[True])
    leading_dense_blocks: SizeOrNone = Field(
        0, description="Blocks at the start with the plain MLP of `feedforward` instead.", examples=[3]
    )
    every: Size = Field(1, description="After those, one block in so many has experts.", examples=[2])
    capacity_factor: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None,
        description="Tokens that an expert takes at most, as a multiple of the mean; without the key none are dropped.",
        examples=[1.25],
    )
    imbalance: Annotated[float, Field(ge=1, le=1e6)] = Field(
        1.0,
        description="Tokens of the busiest processor as a multiple of the mean, where none are dropped.",
        examples=[1.2],
    )


class WorkloadFile(FileModel):
    """The shape of a transformer; a workload file holds the same keys."""

    name: str = Field(min_length=1, max_length=100, description="What reports call it.", examples=["gpt3-175b"])
    hidden: Size = Field(description="Width of the residual stream, elements.", examples=[12288])
    feedforward: Size = Field(description="Width of the MLP's inner layer, elements.", examples=[49152])
    sequence_length: Size = Field(description="Tokens in a sequence.", examples=[2048])
    attention_heads: Size = Field(description="Attention heads.", examples=[96])
    head_size: Size = Field(description="Width of one attention head, elements.", examples=[128])
    blocks: Size = Field(description="Transformer blocks.", examples=[96])
    key_value_heads: Size | None = Field(
        None, description="Heads of keys and values; without the key as many as attention heads.", examples=[8]
    )
    latent_attention: LatentAttentionFile | None = Field(
        None, description="Multi-head latent attention instead.", examples=["see [workload.latent_attention]"]
    )
    gated_mlp: bool = Field(False, description="A third product gates the MLP, as in SwiGLU.", examples=[True])
    experts: ExpertsFile | None = Field(
        None, description="A mixture of experts in place of the MLP.", examples=["see [workload.experts]"]
    )
    vocabulary: SizeOrNone = Field(
        0,
        description="Tokens that the embedding knows; 0 for blocks alone, without embedding, output projection and "
        "loss, as the published tool has it.",
        examples=[128256],
    )
    vocabulary_multiple: Size = Field(
        1, description="The embedding is padded to a multiple of this times `tp`.", examples=[128]
    )
    tied_embeddings: bool = Field(
        True, description="The output projection has the embedding's weights.", examples=[False]
    )
    learned_positions: SizeOrNone = Field(
        0, description="Rows of a learned position embedding; 0 for none.", examples=[2048]
    )
    rotary: bool = Field(False, description="Queries and keys are rotated by their position.", examples=[True])
    root_mean_square_norm: bool = Field(
        False, description="Norms scale only (RMSNorm), with one weight for each element.", examples=[True]
    )
    norms: SizeOrNone = Field(2, description="Norms of the whole width in a block.", examples=[4])
    final_norm: bool = Field(True, description="A norm stands before the output projection.", examples=[False])
    query_key_norm: Annotated[QueryKeyNorm, one_of(QueryKeyNorm)] = Field(
        QueryKeyNorm.NONE.value,
        validate_default=True,
        description="Norm of queries and keys: of each head, or of their whole width.",
        examples=["head"],
    )
    attention_bias: bool = Field(True, description="Queries, keys and values have biases.", examples=[False])
    attention_output_bias: bool = Field(True, description="Attention's output has a bias.", examples=[False])
    mlp_bias: bool = Field(True, description="The MLP's products have biases.", examples=[False])
    output_bias: bool = Field(False, description="The output projection has a bias.", examples=[True])
    attention_sinks: bool = Field(
        False, description="Each head has a learned score that no token answers.", examples=[True]
    )
    dropout: bool = Field(True, description="There is dropout.", examples=[False])
    causal: bool = Field(True, description="A token sees those before it alone.", examples=[False])
    window: SizeOrNone = Field(
        0, description="Tokens that one sees in a block with a sliding window; 0 for none.", examples=[4096]
    )
    windowed_blocks: SizeOrNone = Field(0, description="Blocks with that window, spread evenly.", examples=[21])
    prediction_blocks: SizeOrNone = Field(
        0, description="Further blocks that predict tokens beyond the next (multi-token prediction).", examples=[1]
    )
    source: str = Field("", description="Where the numbers come from.", examples=["arXiv 2005.14165"])

    @model_validator(mode="after")
    def _check_consistency(self) -> WorkloadFile:
        try:
            check_workload(workload_from_file(self), where="")
        except InputError:
            # The table's key path is not known here; `validated` asks again with it.
            raise PydanticCustomError("parsed", "inconsistent", {"parse": partial(_check, self)}) from None
        return self


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
    values = {name: getattr(file, name) for name in WorkloadFile.model_fields if name != "source"}
    if file.latent_attention is not None:
        values["latent_attention"] = LatentAttention(**file.latent_attention.model_dump())
    if file.experts is not None:
        values["experts"] = Experts(**file.experts.model_dump())
    return Workload(**values)


def workload_to_toml(workload: Workload) -> str:
    """A file that `read_workload` reads back to an equal workload."""
    return tomli_w.dumps(workload_to_dict(workload))


def workload_to_dict(workload: Workload) -> dict[str, Any]:
    """The content of a file: the sizes, and what differs from the defaults."""
    values = _without_defaults(workload)
    if "query_key_norm" in values:
        values["query_key_norm"] = workload.query_key_norm.value
    for key in ("latent_attention", "experts"):
        if key in values:
            values[key] = _without_defaults(values[key])
    return values


def _without_defaults(instance: Any) -> dict[str, Any]:
    values = {field.name: (getattr(instance, field.name), field.default) for field in dataclasses.fields(instance)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _check(file: WorkloadFile, value: object, *, where: str) -> None:
    check_workload(workload_from_file(file), where=where)
