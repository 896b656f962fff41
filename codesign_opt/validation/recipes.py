"""What the software of a measured run does that the columns of a row do not say."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codesign_opt.strategies import AttentionKernel, Datatype, GradientPrecision, Recompute, TpOverlap
from codesign_opt.validation.pipeline_split import PipelineSplit
from codesign_opt.validation.runs import MeasuredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Habits of a training software.

    Attributes:
        source: Where they are known from.
        datatype: Number format where a row names none.
        gradients: Format of gradients.
        vocabulary_multiple: The embedding is padded to a multiple of this times tp.
        dp_overlap: Whether the gradient exchange hides behind the backward pass; with sharded weights it always does.
        dense_tp_overlap: How the collectives of tensor parallelism hide in models without experts.
        scattered_stage_messages: Whether messages between stages are split over tensor-parallel processors, where the
            sequence is not.
        reduce_each_microbatch: With sharded weights: whether gradients are exchanged in every microbatch.
        split: How blocks are shared among stages.
        recompute: What is computed again where a row does not say.
        attention: How attention is computed where a row does not say.
    """

    source: str
    datatype: Datatype = Datatype.BFLOAT16
    gradients: GradientPrecision = GradientPrecision.SAME
    vocabulary_multiple: int = 1
    dp_overlap: bool = True
    dense_tp_overlap: TpOverlap = TpOverlap.NONE
    scattered_stage_messages: bool = False
    reduce_each_microbatch: bool = True
    split: PipelineSplit = PipelineSplit.ENDS_SHORTER
    recompute: Recompute = Recompute.NONE
    attention: AttentionKernel = AttentionKernel.FLASH


_MEGATRON_2021 = Recipe(
    source="Megatron-LM v2: gradients in 16 bits, exchanged after the backward pass; messages between stages scattered",
    datatype=Datatype.FLOAT16,
    vocabulary_multiple=128,
    dp_overlap=False,
    scattered_stage_messages=True,
    attention=AttentionKernel.UNFUSED,
)

_PAXML = Recipe(
    source="JAX-Toolbox: Paxml saves products and recomputes the rest; weights and gradients sharded by the compiler",
    recompute=Recompute.SELECTIVE,
    attention=AttentionKernel.UNFUSED,
)

RECIPES: tuple[tuple[str, Recipe], ...] = (
    ("nanotron", Recipe(
        source="nanotron: 32-bit accumulation beside 16-bit gradients; buckets exchanged in the last microbatch's "
        "backward pass; blocks and output projection shared among stages by their cost (models/base.py)",
        gradients=GradientPrecision.BOTH,
        split=PipelineSplit.BALANCED,
    )),
    ("Megatron-Bridge", Recipe(
        source="Megatron-Bridge scripts/performance: grad_reduce_in_fp32 off, overlap_grad_reduce on, tensor-parallel "
        "overlap by user buffers in dense models, should_pad_vocab",
        vocabulary_multiple=128,
        dense_tp_overlap=TpOverlap.RING,
    )),
    ("llm-foundry", Recipe(
        source="Composer get_mixed_precision: DEFAULT exchanges gradients in 32 bits, PURE in 16; FSDP synchronises in "
        "every microbatch",
        gradients=GradientPrecision.FLOAT32,
    )),
    ("Megatron-LM / Megatron-DeepSpeed 2021", _MEGATRON_2021),
    ("Megatron-DeepSpeed", _MEGATRON_2021),
    ("Megatron-LM 2020", _MEGATRON_2021),
    ("Megatron-LM 2021", _MEGATRON_2021),
    ("Megatron-LM 2022", _MEGATRON_2021),
    ("DeepSpeed ZeRO-3", _MEGATRON_2021),
    ("NeMo Megatron", replace(_MEGATRON_2021, datatype=Datatype.BFLOAT16, gradients=GradientPrecision.FLOAT32)),
    ("InternEvo", Recipe(source="InternEvo: 16-bit gradients, overlap_sync_grad on")),
    ("MaxText", Recipe(source="MaxText: sharding by the compiler, whose scheduler hides collectives")),
    ("PaxML (JAX) + TransformerEngine", replace(_PAXML, attention=AttentionKernel.FLASH)),
    ("PaxML", _PAXML),
    ("NeMo Automodel", Recipe(
        source="NeMo Automodel: FSDP2 that exchanges gradients in 32 bits, in the last microbatch",
        gradients=GradientPrecision.FLOAT32,
        reduce_each_microbatch=False,
    )),
    ("Primus", Recipe(
        source="Primus on Megatron-LM: 32-bit gradients",
        gradients=GradientPrecision.FLOAT32,
        vocabulary_multiple=128,
    )),
)  # fmt: skip
"""How the name of a software begins, the longer beginning first, and its recipe."""

UNKNOWN = Recipe(source="assumed, as the software is not known", gradients=GradientPrecision.FLOAT32)


def recipe_of(run: MeasuredRun) -> tuple[Recipe, list[str]]:
    """The recipe of the run's software, and what had to be assumed, in words."""
    software = run.software or ""
    for beginning, recipe in RECIPES:
        if software.startswith(beginning):
            pure = "MP mode PURE" in (run.notes or "")
            return (replace(recipe, gradients=GradientPrecision.SAME) if pure else recipe), []
    return UNKNOWN, [f"software '{software}' not known: 32-bit gradients, exchanged behind the backward pass"]
