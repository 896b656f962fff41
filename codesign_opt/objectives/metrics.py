"""The metric catalogue: everything that can be minimised, maximised, bounded or reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from codesign_opt.errors import InputError, nearest
from codesign_opt.objectives import cost, energy, intervals, rates

if TYPE_CHECKING:
    from codesign_opt.analytical import Estimate
    from codesign_opt.systems import System

Direction = Literal["minimize", "maximize"]
Need = Literal["", "price", "power", "memory_tier2"]

PESSIMISTIC = "_pessimistic"
"""Ends the name of a pace at the pessimistic end of its published interval."""

SHORT_NAMES: Mapping[str, str] = {"price": "system_price"}
"""Names by which a metric may be called besides its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity of an estimate.

    Attributes:
        name: As written in studies.
        unit: Of the values, as in `codesign_opt.units`.
        direction: Which way is better.
        description: One line.
        scope: "system" where the system and the number of processors decide it, "strategy" where the strategy does.
        formula: Estimate to values; element-wise, so that the estimate's arrays may broadcast.
        needs: The part of the system that `formula` needs and that a system may lack.
        minimum, maximum: Values that no estimate exceeds; None where there is no such limit.
    """

    name: str
    unit: str
    direction: Direction
    description: str
    scope: Literal["strategy", "system"]
    formula: Callable[[Estimate], Any]
    needs: Need = ""
    minimum: float | None = 0.0
    maximum: float | None = None

    def evaluate(self, estimate: Estimate) -> NDArray[np.float64]:
        """Values in `unit`, of the shape to which the arrays involved broadcast.

        Raises:
            InputError: The system has no price, power or second memory tier, and the metric needs it.
        """
        if not self.available(estimate.system):
            raise InputError(
                f"metric '{self.name}' needs '{self.needs}', which system '{estimate.system.name}' does not have",
                f"add '{self.needs}' to the system, or choose another metric",
            )
        return np.asarray(self.formula(estimate), dtype=np.float64)

    def available(self, system: System) -> bool:
        """Whether `system` has what the metric needs."""
        if self.needs == "memory_tier2":
            return system.memory_tier2.capacity > 0
        return not self.needs or getattr(system, self.needs) is not None


def metric(name: str, *, where: str) -> Metric:
    """The metric of that name or short name; `where` is the file and key for the message.

    Raises:
        InputError: There is none; the hint names the nearest.
    """
    full_name = SHORT_NAMES.get(name, name)
    if full_name not in METRICS:
        raise InputError(f"{where}: unknown metric '{name}'", nearest(name, METRICS))
    return METRICS[full_name]


def available_metrics(system: System) -> list[Metric]:
    """The metrics that can be evaluated on `system`, in the order of the catalogue."""
    return [entry for entry in METRICS.values() if entry.available(system)]


def _seconds(name: str, formula: Callable[[Any], Any], description: str) -> Metric:
    return Metric(
        name=name,
        unit="s",
        direction="minimize",
        description=f"{description}, per step",
        scope="strategy",
        formula=lambda estimate: formula(estimate.times),
    )


def _rate(
    name: str, unit: str, formula: Callable[[Estimate], Any], description: str, *, maximum: float | None = None
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction="maximize",
        description=description,
        scope="strategy",
        formula=formula,
        maximum=maximum,
    )


def _bytes(name: str, formula: Callable[[Any], Any], description: str) -> Metric:
    return Metric(
        name=name,
        unit="B",
        direction="minimize",
        description=f"{description}, per processor",
        scope="strategy",
        formula=lambda estimate: formula(estimate.memory),
    )


def _free(tier: Literal["memory_tier1", "memory_tier2"], formula: Callable[[Estimate], Any]) -> Metric:
    return Metric(
        name=f"{tier}_free",
        unit="B",
        direction="maximize",
        description=f"Capacity of {_TIER_NAMES[tier]} that stays free, per processor; negative where it does not fit",
        scope="strategy",
        formula=formula,
        minimum=None,
    )


def _part(need: Any, capacity: Any) -> Any:
    """Need as a share of the capacity; 0 where there is neither."""
    return np.where(need > 0, need / np.where(capacity > 0, capacity, np.nan), 0.0)


def _share(tier: Literal["memory_tier1", "memory_tier2"], formula: Callable[[Estimate], Any], needs: Need) -> Metric:
    return Metric(
        name=f"{tier}_share",
        unit="1",
        direction="minimize",
        description=f"Share of the capacity of {_TIER_NAMES[tier]} that is needed; above 1 where it does not fit",
        scope="strategy",
        formula=formula,
        needs=needs,
    )


def _capacity(tier: Literal["memory_tier1", "memory_tier2"], formula: Callable[[Estimate], Any]) -> Metric:
    return Metric(
        name=f"{tier}_capacity",
        unit="B",
        direction="minimize",
        description=f"Capacity of {_TIER_NAMES[tier]}, per processor",
        scope="system",
        formula=formula,
    )


def _cost(
    name: str, unit: str, formula: Callable[[Estimate], Any], description: str, scope: Literal["strategy", "system"]
) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction="minimize",
        description=description,
        scope=scope,
        formula=formula,
        needs="price",
    )


def _energy(name: str, unit: str, formula: Callable[[Estimate], Any], description: str) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction="minimize",
        description=description,
        scope="strategy",
        formula=formula,
        needs="power",
    )


def _pessimistic(metric: Metric) -> Metric:
    """A pace as it is at the pessimistic end of the published interval: 80 % of comparable runs were within it."""
    slower = metric.direction == "minimize"

    def formula(estimate: Estimate) -> Any:
        factor = intervals.pessimistic_factor(estimate)
        return metric.formula(estimate) * factor if slower else metric.formula(estimate) / factor

    return replace(
        metric,
        name=f"{metric.name}{PESSIMISTIC}",
        description=f"{metric.description}, at the pessimistic end of the 80 % interval of comparable published runs",
        formula=formula,
    )


_TIER_NAMES = {"memory_tier1": "memory tier 1", "memory_tier2": "memory tier 2"}

_PACES = (
    _seconds("step_time", lambda times: times.total, "Time of one optimizer step, or of one batch in inference"),
    _rate("sample_rate", "samples/s", rates.sample_rate, "Sequences per second"),
    _rate("token_rate", "tokens/s", rates.token_rate, "Tokens per second"),
    _rate(
        "sample_rate_per_processor",
        "samples/s",
        lambda estimate: rates.sample_rate(estimate) / estimate.strategies["processors"],
        "Sequences per second and processor",
    ),
    _rate(
        "token_rate_per_processor",
        "tokens/s",
        lambda estimate: rates.token_rate(estimate) / estimate.strategies["processors"],
        "Tokens per second and processor",
    ),
)

_CATALOGUE = (
    *_PACES,
    *map(_pessimistic, _PACES),
    _rate(
        "mfu",
        "1",
        rates.model_flops_utilization,
        "Model flops utilisation: flop that the model needs, with full attention and without recompute, "
        "as a share of the matrix peak at the precision of the strategy's products",
        maximum=1.0,
    ),
    _rate(
        "mfu_causal",
        "1",
        rates.causal_flops_utilization,
        "The same with causal attention, which counts for half of full attention",
        maximum=1.0,
    ),
    _seconds("forward_time", lambda times: times.forward, "Compute of the forward pass"),
    _seconds("backward_time", lambda times: times.backward, "Compute of the backward pass"),
    _seconds("optimizer_time", lambda times: times.optimizer, "Optimizer"),
    _seconds(
        "compute_time",
        lambda times: times.forward + times.backward + times.optimizer,
        "Forward pass, backward pass and optimizer",
    ),
    _seconds("recompute_time", lambda times: times.recompute, "Compute done again in the backward pass"),
    _seconds(
        "recompute_communication_time",
        lambda times: times.recompute_communication,
        "Exposed tensor-parallel communication of the recompute",
    ),
    _seconds("tp_communication_time", lambda times: times.tp_communication, "Exposed tensor-parallel communication"),
    _seconds("cp_communication_time", lambda times: times.cp_communication, "Exposed context-parallel communication"),
    _seconds("ep_communication_time", lambda times: times.ep_communication, "Exposed expert-parallel communication"),
    _seconds("pp_communication_time", lambda times: times.pp_communication, "Exposed pipeline communication"),
    _seconds("dp_communication_time", lambda times: times.dp_communication, "Exposed data-parallel communication"),
    _seconds(
        "exposed_communication_time",
        lambda times: (
            times.recompute_communication
            + times.tp_communication
            + times.cp_communication
            + times.ep_communication
            + times.pp_communication
            + times.dp_communication
        ),
        "Exposed communication of all kinds",
    ),
    _seconds("forward_offload_time", lambda times: times.forward_offload, "Exposed offload in the forward pass"),
    _seconds("backward_offload_time", lambda times: times.backward_offload, "Exposed offload in the backward pass"),
    _seconds("bubble_time", lambda times: times.bubble, "Pipeline bubble"),
    Metric(
        name="bubble_share",
        unit="1",
        direction="minimize",
        description="Share of the step time that is pipeline bubble",
        scope="strategy",
        formula=lambda estimate: estimate.times.bubble / estimate.times.total,
        maximum=1.0,
    ),
    _bytes("memory_tier1_used", lambda memory: memory.tier1, "Memory tier 1 needed"),
    _share("memory_tier1", lambda estimate: _part(estimate.memory.tier1, estimate.memory_capacity), ""),
    _free("memory_tier1", lambda estimate: estimate.memory_capacity - estimate.memory.tier1),
    _bytes("memory_tier2_used", lambda memory: memory.tier2, "Memory tier 2 needed"),
    _share("memory_tier2", lambda estimate: _part(estimate.memory.tier2, estimate.offload_capacity), "memory_tier2"),
    _free("memory_tier2", lambda estimate: estimate.offload_capacity - estimate.memory.tier2),
    _bytes("weight_memory", lambda memory: memory.weight, "Weights in memory tier 1"),
    _bytes("activation_memory", lambda memory: memory.activation, "Activations in memory tier 1"),
    _bytes("weight_gradient_memory", lambda memory: memory.weight_gradient, "Weight gradients in memory tier 1"),
    _bytes(
        "activation_gradient_memory", lambda memory: memory.activation_gradient, "Activation gradients in memory tier 1"
    ),
    _bytes("overhead_memory", lambda memory: memory.overhead, "What frameworks take of memory tier 1 besides"),
    _bytes("optimizer_memory", lambda memory: memory.optimizer, "Optimizer state in memory tier 1"),
    _capacity("memory_tier1", lambda estimate: estimate.memory_capacity),
    _capacity("memory_tier2", lambda estimate: estimate.offload_capacity),
    Metric(
        name="processors",
        unit="1",
        direction="minimize",
        description="Number of processors",
        scope="system",
        formula=lambda estimate: estimate.strategies["processors"],
    ),
    _cost("processor_price", "$", cost.processor_price, "Purchase price of one processor with its memory", "system"),
    _cost("system_price", "$", cost.system_price, "Purchase price of all processors with their memory", "system"),
    _cost(
        "cost_per_million_tokens",
        "$",
        cost.cost_per_million_tokens,
        "Processor-hours that a million tokens take, at the hourly price or the purchase price spread over its hours",
        "strategy",
    ),
    Metric(
        name="price_performance",
        unit="samples/s/$",
        direction="maximize",
        description="Sequences per second for each $ of purchase price",
        scope="strategy",
        formula=cost.price_performance,
        needs="price",
    ),
    _energy("energy_per_step", "J", energy.energy_per_step, "Energy of all processors, per step"),
    _energy("energy_per_token", "J", energy.energy_per_token, "Energy of all processors, per token"),
    _energy("power_average", "W", energy.power_average, "Power of all processors, mean over a step"),
)

METRICS: Mapping[str, Metric] = {entry.name: entry for entry in _CATALOGUE}
"""All metrics by name."""
