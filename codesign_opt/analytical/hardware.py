"""Systems as columns, and the time of primitive operations on them (spec analytical-model section 4).

Notation: x flop, y bytes of memory tier 1, q bytes on a link, n participants. Everything broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign_opt.analytical.errata import Erratum
from codesign_opt.strategies import Datatype
from codesign_opt.systems import EfficiencyCurve, Engine, MemoryTier, NetworkTier, System

Array = NDArray[Any]

COLLECTIVES = ("p2p", "reduce_scatter", "all_gather", "all_reduce")


_FEW_STEPS = 6
"""Steps up to which going through all of them is as fast as looking one up."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Efficiency curves as columns: (step, row) thresholds and efficiencies, padded in front with infinity.

    `step_shaped` takes the steps as they are. Otherwise an operation may be padded to a larger, more efficient size:
    then size / efficiency(size) is the largest non-decreasing function of size below the step-shaped one.
    """

    thresholds: Array
    efficiencies: Array
    step_shaped: bool

    def at(self, size: Array) -> Array:
        """Efficiency of each size; 1 for sizes of 0, which take no time."""
        if len(self.thresholds) > _FEW_STEPS and self._is_regular:
            return self._looked_up(np.asarray(size))
        result: Array = self.efficiencies[-1]
        for threshold, efficiency in zip(self.thresholds[-2::-1], self.efficiencies[-2::-1], strict=True):
            result = np.where(size >= threshold, efficiency, result)
        if not self.step_shaped:
            for threshold, efficiency in zip(self.thresholds[:-1], self.efficiencies[:-1], strict=True):
                padded = np.where(size < threshold, efficiency * size / threshold, 0.0)
                result = np.maximum(result, padded)
        return result

    @property
    def _is_regular(self) -> bool:
        """Whether all rows have the same thresholds, and padding to the next one is better than to any other."""
        slopes = self.efficiencies[:-1] / self.thresholds[:-1]
        return bool(np.all(self.thresholds == self.thresholds[:, :1]) and np.all(slopes[:-1] <= slopes[1:]))

    def _looked_up(self, size: Array) -> Array:
        thresholds, row = self.thresholds[::-1, 0], np.arange(self.efficiencies.shape[1])
        step = np.searchsorted(thresholds, size, side="right") - 1
        result: Array = self.efficiencies[::-1][step, row]
        if not self.step_shaped:
            following = np.minimum(step + 1, len(thresholds) - 1)
            padded = self.efficiencies[::-1][following, row] * size / thresholds[following]
            result = np.where(following > step, np.maximum(result, padded), result)
        return result


@dataclass(frozen=True, slots=True)
class Hardware:
    """Columns of system parameters, one entry a row (or a single entry for all rows).

    Attributes:
        matrix_peak, vector_peak: flop/s at each row's datatype; NaN where the system lacks it. `eight_bit_peak` is that
            of matrix products in 8 bits.
        memory_bandwidth, offload_bandwidth: Bytes/s of memory tiers 1 and 2; `*_capacity` their bytes.
        roofline: Whether flop and memory time overlap.
        attention_forward, attention_backward, attention_half_head: `systems.FusedAttention`; NaN where there is none.
        launch: Seconds of the host for each operation.
        system: Index of each row's system in the (system, tier) network tables.
    """

    matrix_peak: Array
    matrix_curves: Curves
    eight_bit_peak: Array
    eight_bit_curves: Curves
    vector_peak: Array
    vector_curves: Curves
    memory_bandwidth: Array
    memory_curves: Curves
    memory_capacity: Array
    offload_bandwidth: Array
    offload_curves: Curves
    offload_capacity: Array
    roofline: Array
    system: Array
    attention_forward: Array
    attention_backward: Array
    attention_half_head: Array
    launch: Array
    network_rate: Array
    network_latency: Array
    network_member_latency: Array
    network_usage: Array
    network_scalars: dict[str, Array]
    network_offsets: dict[str, Array]

    def take(self, index: Array) -> Hardware:
        """The rows at `index`; the network's tables are those of all systems."""
        taken: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Curves):
                value = Curves(value.thresholds[:, index], value.efficiencies[:, index], value.step_shaped)
            elif not field.name.startswith("network_"):
                value = value[index]
            taken[field.name] = value
        return Hardware(**taken)

    def matrix_time(self, x: Array) -> Array:
        """Time of x flop on the matrix engine."""
        return np.asarray(x / (self.matrix_peak * self.matrix_curves.at(x)))

    def eight_bit_time(self, x: Array) -> Array:
        """Time of x flop on the matrix engine at 8 bits."""
        return np.asarray(x / (self.eight_bit_peak * self.eight_bit_curves.at(x)))

    def vector_time(self, x: Array) -> Array:
        """Time of x flop on the vector engine."""
        return np.asarray(x / (self.vector_peak * self.vector_curves.at(x)))

    def memory_time(self, y: Array) -> Array:
        """Time to touch y bytes of memory tier 1."""
        return np.asarray(y / (self.memory_bandwidth * self.memory_curves.at(y)))

    def attention_time(self, x: Array, head_size: Array, *, backward: bool) -> Array:
        """Time of x flop of attention in one pass with heads of some size."""
        share = self.attention_backward if backward else self.attention_forward
        share = share * head_size / (head_size + self.attention_half_head)
        return np.where(np.isnan(share), self.matrix_time(x), x / (self.matrix_peak * share))

    def offload_time(self, y: Array) -> Array:
        """Time to move y bytes to or from memory tier 2."""
        return np.asarray(y / (self.offload_bandwidth * self.offload_curves.at(y)))

    def combine(self, flop_time: Array, memory_time: Array) -> Array:
        """Time of an operation that computes and touches memory: the larger one (roofline) or the sum."""
        if self.roofline.size == 1:
            return np.maximum(flop_time, memory_time) if self.roofline.item() else flop_time + memory_time
        return np.where(self.roofline, np.maximum(flop_time, memory_time), flop_time + memory_time)

    def latency(self, tier: Array) -> Array:
        """Latency of each tier index, seconds."""
        return np.asarray(self.network_latency[self.system, tier])

    def processor_usage(self, tier: Array) -> Array:
        """Share of compute that a transfer on each tier index takes."""
        return np.asarray(self.network_usage[self.system, tier])

    def wire_scalar(self, tier: Array, collective: str) -> Array:
        """Bytes on the wire for each byte of an operation among many participants."""
        return np.asarray(self.network_scalars[collective][self.system, tier])

    def transfer_time(self, tier: Array, collective: str, q: Array, n: Array, inner: Array | None = None) -> Array:
        """Time of a network operation (one of `COLLECTIVES`) of q bytes.

        Where `inner` of its n processors sit in one group of the tier below, their links to this tier carry it
        together, up to what the tier below carries.
        """
        scalar = self.network_scalars[collective][self.system, tier]
        offset = self.network_offsets[collective][self.system, tier]
        seconds = self.latency(tier) + q * scalar * (1 + offset / n) / self.rate(tier, inner)
        return np.asarray(seconds if collective == "p2p" else self._with_members(seconds, tier, collective, n))

    def _with_members(self, seconds: Array, tier: Array, collective: str, n: Array) -> Array:
        """Seconds of a collective that passes n members, with the latency of those beyond two."""
        if not np.any(self.network_member_latency):
            return seconds
        further = 2 * np.log2(np.maximum(n, 2) / 2) if collective == "all_reduce" else np.maximum(n - 2, 0)
        return np.asarray(seconds + self.network_member_latency[self.system, tier] * further)

    def rate(self, tier: Array, inner: Array | None) -> Array:
        """Bytes/s of a processor's share of a group's traffic on a tier."""
        own: Array = self.network_rate[self.system, tier]
        if inner is None or np.all(inner == 1):
            return own
        below = self.network_rate[self.system, np.maximum(tier - 1, 0)]
        return np.asarray(np.where(inner > 1, np.maximum(np.minimum(own * inner, below), own), own))

    def all_to_all_time(self, tier: Array, q: Array, n: Array, inner: Array, copies: Array | float = 1.0) -> Array:
        """Time of an all-to-all among n processors that hold q bytes each: one n-th of them goes to each.

        What goes to the `inner` processors in the same group of the tier below goes there, beside the rest. Of `copies`
        of the same bytes with destinations of their own, those for one other group go there once, and are copied there:
        among G groups, (G - 1)·(1 - (1 - 1/G)^copies) others are meant in the mean.
        """
        own: Array = self.network_rate[self.system, tier]
        below = self.network_rate[self.system, np.maximum(tier - 1, 0)]
        groups = n / inner
        others = (groups - 1) * (1 - (1 - 1 / groups) ** copies) / copies
        away = q * np.where(inner > 1, others, (n - inner) / n) / own
        near = q * (inner - 1) / n / np.where(inner > 1, below, own)
        return np.asarray(self._with_members(self.latency(tier) + np.maximum(away, near), tier, "all_to_all", n))


def hardware_columns(systems: Sequence[System], system: Array, datatype: Array, reproduce: Set[Erratum]) -> Hardware:
    """Columns for rows that name their system (index in `systems`) and datatype (its code)."""
    step_shaped = Erratum.E25 in reproduce
    words = [word.value for word in Datatype]

    def curves(of: Sequence[EfficiencyCurve], index: Array) -> Curves:
        steps = max(len(curve.thresholds) for curve in of)
        thresholds, efficiencies = np.full((steps, len(of)), np.inf), np.ones((steps, len(of)))
        for column, curve in enumerate(of):
            thresholds[steps - len(curve.thresholds) :, column] = curve.thresholds
            efficiencies[steps - len(curve.thresholds) :, column] = curve.efficiencies
        return Curves(thresholds[:, index], efficiencies[:, index], step_shaped)

    def engines(section: str, datatype: Array) -> tuple[Array, Curves]:
        absent = Engine(peak=float("nan"), efficiency=EfficiencyCurve((0.0,), (1.0,)))
        all_engines = [getattr(machine, section).get(word, absent) for machine in systems for word in words]
        index = system * len(words) + datatype
        peaks = np.array([engine.peak for engine in all_engines])
        return peaks[index], curves([engine.efficiency for engine in all_engines], index)

    def memory(section: str) -> tuple[Array, Curves, Array]:
        tiers: list[MemoryTier] = [getattr(machine, section) for machine in systems]
        return (
            np.array([tier.bandwidth for tier in tiers])[system],
            curves([tier.efficiency for tier in tiers], system),
            np.array([tier.capacity for tier in tiers])[system],
        )

    def attention(name: str) -> Array:
        return np.array([getattr(machine.fused_attention, name, np.nan) for machine in systems])[system]

    def network(value: Callable[[NetworkTier], float]) -> Array:
        most = max(len(machine.network_tiers) for machine in systems)
        table = np.zeros((len(systems), most))
        for row, machine in enumerate(systems):
            table[row, : len(machine.network_tiers)] = [value(tier) for tier in machine.network_tiers]
        return table

    matrix_peak, matrix_curves = engines("matrix", datatype)
    eight_bits = np.full_like(datatype, words.index(Datatype.FLOAT8.value))
    eight_bit_peak, eight_bit_curves = engines("matrix", eight_bits)
    vector_peak, vector_curves = engines("vector", datatype)
    memory_bandwidth, memory_curves, memory_capacity = memory("memory_tier1")
    offload_bandwidth, offload_curves, offload_capacity = memory("memory_tier2")
    return Hardware(
        matrix_peak=matrix_peak,
        matrix_curves=matrix_curves,
        eight_bit_peak=eight_bit_peak,
        eight_bit_curves=eight_bit_curves,
        vector_peak=vector_peak,
        vector_curves=vector_curves,
        memory_bandwidth=memory_bandwidth,
        memory_curves=memory_curves,
        memory_capacity=memory_capacity,
        offload_bandwidth=offload_bandwidth,
        offload_curves=offload_curves,
        offload_capacity=offload_capacity,
        roofline=np.array([machine.roofline for machine in systems])[system],
        attention_forward=attention("forward_efficiency"),
        attention_backward=attention("backward_efficiency"),
        attention_half_head=attention("half_head_size"),
        launch=np.array([machine.launch for machine in systems])[system],
        system=system,
        network_rate=network(lambda tier: tier.bandwidth * tier.efficiency),
        network_latency=network(lambda tier: tier.latency),
        network_member_latency=network(lambda tier: tier.latency_per_member),
        network_usage=network(lambda tier: tier.processor_usage),
        network_scalars={name: network(_cost_of(name, "scalar")) for name in COLLECTIVES},
        network_offsets={name: network(_cost_of(name, "offset")) for name in COLLECTIVES},
    )


def _cost_of(collective: str, part: str) -> Callable[[NetworkTier], float]:
    return lambda tier: float(getattr(getattr(tier, collective), part))
