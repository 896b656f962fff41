"""The options that say a strategy, one for each of its columns. Imports stay light: `--help` loads this."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from codesign_opt.cli import options


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyOption:
    """An option that says a column of a strategy, or something that stands for columns.

    Attributes:
        name: The column, or the shorthand, with underscores.
        help: What it says.
        group: Heading under which `--help` shows it.
        words: The words it may take; none for a number or a flag.
        flag: Whether it is a flag.
        lowest: The lowest number.
    """

    name: str
    help: str
    group: str
    words: tuple[str, ...] = ()
    flag: bool = False
    lowest: int = 1

    @property
    def option(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"

    def parameter(self) -> inspect.Parameter:
        """The parameter of a command that takes it; None where it is not given."""
        if self.flag:
            declared = typer.Option(
                f"{self.option}/--no-{self.option[2:]}", show_default=False, help=self.help, rich_help_panel=self.group
            )
        else:
            declared = typer.Option(
                self.option,
                metavar="|".join(self.words) or "N",
                help=self.help,
                rich_help_panel=self.group,
                autocompletion=options.words(self.words) if self.words else None,
            )
        kind = bool | None if self.flag else str | None
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, declared]
        )

    def value(self, given: Any) -> Any:
        """What was typed as a value of the column.

        Raises:
            InputError: It is not allowed.
        """
        from codesign_opt.cli.values import choice, whole_number

        if self.flag:
            return given
        if self.words:
            return choice(given, self.option, self.words)
        return whole_number(given, self.option, lowest=self.lowest)


def with_strategy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with all these options in place of its parameter `columns`, a dict of those that were given."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "columns"]
    added = [option.parameter() for option in STRATEGY_OPTIONS]

    @wraps(command)
    def with_options(**given: Any) -> Any:
        columns = {option.name: given.pop(option.name) for option in STRATEGY_OPTIONS}
        return command(columns={name: value for name, value in columns.items() if value is not None}, **given)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    with_options.__signature__ = signature.replace(parameters=[*keyword_only, *added])  # type: ignore[attr-defined]
    return with_options


def column_values(columns: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed as values of columns and shorthands.

    Raises:
        InputError: Naming the option.
    """
    return {option.name: option.value(columns[option.name]) for option in STRATEGY_OPTIONS if option.name in columns}


def _count(name: str, help: str, group: str, *, lowest: int = 1) -> StrategyOption:
    return StrategyOption(name=name, help=help, group=group, lowest=lowest)


def _word(name: str, words: tuple[str, ...], help: str, group: str) -> StrategyOption:
    return StrategyOption(name=name, help=help, group=group, words=words)


def _flag(name: str, help: str, group: str) -> StrategyOption:
    return StrategyOption(name=name, help=help, group=group, flag=True)


_DEGREES = "Parallel degrees"
_BATCH = "Batch"
_PIPELINE = "Pipeline"
_COMMUNICATION = "Communication"
_SHARDING = "State split over replicas"
_MEMORY = "Recompute and offload"
_ARITHMETIC = "Arithmetic"
_NETWORK = "Place on the network"

STRATEGY_OPTIONS: tuple[StrategyOption, ...] = (
    _count("processors", "Number of processors; tp · pp · dp · cp if absent.", _DEGREES),
    _count("tp", "Tensor-parallel degree.", _DEGREES),
    _count("pp", "Pipeline-parallel degree.", _DEGREES),
    _count("dp", "Data-parallel degree.", _DEGREES),
    _count("cp", "Context-parallel degree.", _DEGREES),
    _count("ep", "Expert-parallel degree.", _DEGREES),
    _count("etp", "Tensor-parallel degree inside an expert.", _DEGREES),
    _count("batch", "Global batch, sequences.", _BATCH),
    _count("microbatch", "Sequences of a microbatch.", _BATCH),
    _count("accumulation", "Microbatches of a replica and step, in place of --batch.", _BATCH),
    _flag("training", "--no-training is a forward pass only.", _BATCH),
    _word("schedule", options.SCHEDULES, "Order of passes.", _PIPELINE),
    _count("vpp", "Chunks of the interleaved schedule per stage.", _PIPELINE),
    _count("first_stage_less", "Blocks that the first stage has fewer than others.", _PIPELINE, lowest=0),
    _count("last_stage_less", "Blocks that the last stage has fewer than others.", _PIPELINE, lowest=0),
    _word("tp_communication", options.TP_COMMUNICATIONS, "Collectives of tensor parallelism.", _COMMUNICATION),
    _word("tp_overlap", options.TP_OVERLAPS, "How they hide behind matrix products.", _COMMUNICATION),
    _flag("gather_redo", "Gather again in the backward pass.", _COMMUNICATION),
    _word("cp_exchange", options.CP_EXCHANGES, "How context parallelism exchanges keys and values.", _COMMUNICATION),
    _flag("dp_overlap", "Gradient exchange hides behind the backward pass.", _COMMUNICATION),
    _flag("reduce_each_microbatch", "Gradient exchange in every microbatch, not once a step.", _COMMUNICATION),
    _word("zero", options.ZERO_STAGES, "ZeRO stage, in place of the next three.", _SHARDING),
    _flag("optimizer_sharding", "Optimizer state (ZeRO-1).", _SHARDING),
    _flag("gradient_sharding", "Gradients as well (ZeRO-2).", _SHARDING),
    _flag("weight_sharding", "Weights as well (ZeRO-3, FSDP).", _SHARDING),
    _count("shard_group", "Replicas that share; 0 for all, else HSDP.", _SHARDING, lowest=0),
    _count("prefetch", "Blocks whose weights are gathered ahead.", _SHARDING, lowest=0),
    _flag("keep_gathered", "Keep gathered weights for the backward pass.", _SHARDING),
    _word("recompute", options.RECOMPUTES, "What the backward pass computes again.", _MEMORY),
    _count("recompute_blocks", "Blocks of a stage that full recompute concerns; 0 for all.", _MEMORY, lowest=0),
    _flag("weight_offload", "Weights in memory tier 2.", _MEMORY),
    _flag("activation_offload", "Activations in memory tier 2.", _MEMORY),
    _flag("optimizer_offload", "Optimizer state in memory tier 2.", _MEMORY),
    _word("datatype", options.DATATYPES, "Number format.", _ARITHMETIC),
    _word("product_precision", options.PRODUCT_PRECISIONS, "Number format of matrix products.", _ARITHMETIC),
    _word("gradient_precision", options.GRADIENT_PRECISIONS, "Number format of weight gradients.", _ARITHMETIC),
    _word("attention", options.ATTENTIONS, "Key and value heads.", _ARITHMETIC),
    _word("attention_kernel", options.ATTENTION_KERNELS, "How attention is computed.", _ARITHMETIC),
    _flag("fused_activation", "The MLP activation keeps nothing for the backward pass.", _ARITHMETIC),
    _word("placement", options.STRATEGY_PLACEMENTS, "Order of dimensions, innermost first; or by tiers.", _NETWORK),
    _count("tp_tier", "Network tier of tensor parallelism, from 0.", _NETWORK, lowest=0),
    _count("pp_tier", "Network tier of pipeline parallelism.", _NETWORK, lowest=0),
    _count("dp_tier", "Network tier of data parallelism.", _NETWORK, lowest=0),
    _count("cp_tier", "Network tier of context parallelism.", _NETWORK, lowest=0),
    _count("ep_tier", "Network tier of expert parallelism.", _NETWORK, lowest=0),
)
"""In the order of `--help`."""
