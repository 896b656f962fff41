"""The work of a step in numbers: what passes, messages, and exchanges of weights and gradients take when alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from codesign_opt.graphs.step.orders import Schedule
from codesign_opt.graphs.step.pieces import Passes


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that cross a network tier.

    Attributes:
        tier: Index of the network tier.
        opcode: Of the collective, or "send".
        size: Bytes handed over; of a collective its vector.
        wire: Seconds in which they fill a processor's port, when alone.
        latency: Seconds more.
    """

    tier: int
    opcode: str
    size: float
    wire: float
    latency: float

    @property
    def seconds(self) -> float:
        """How long it takes when alone."""
        return self.wire + self.latency

    def times(self, count: int) -> Transfer:
        """So many of it, one after the other."""
        return replace(self, size=count * self.size, wire=count * self.wire, latency=count * self.latency)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of weights or gradients.

    Attributes:
        group: Who takes part: `shards` that split the state of weights, `copies` of such groups (HSDP), the same of
            routed experts (`expert_shards`, `expert_copies`), or the two `ends` of the stack.
        opcode: Of the collective.
        size: Bytes of its vector.
    """

    group: str
    opcode: str
    size: float


@dataclass(frozen=True, slots=True)
class Offload:
    """Seconds that a block's streams to and from memory tier 2 and its own traffic of tier 1 take together.

    Attributes:
        forward, backward: Beside each pass; 0 without offload.
        last: Beside the backward pass of the step that also streams optimizer state.
    """

    forward: float = 0.0
    backward: float = 0.0
    last: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockWork:
    """A block, or what stands at an end of the stack.

    Attributes:
        base, edge: Its passes; an edge block is the last of a chunk.
        offload: Of either.
        optimizer: Seconds of the optimizer's step.
        gradients: What reduces its gradients.
        weights: What gathers its weights from the processors that split their state; nothing where none do.
        regathered: Whether they are gathered once more for a backward pass.
        kept: The block where full recompute does not concern it, if that may be.
    """

    base: Passes
    edge: Passes
    offload: Offload = Offload()
    optimizer: float = 0.0
    gradients: tuple[Exchange, ...] = ()
    weights: tuple[Exchange, ...] = ()
    regathered: bool = True
    kept: BlockWork | None = None

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the gradients that are exchanged."""
        return sum(exchange.size for exchange in self.gradients if exchange.group in ("shards", "expert_shards"))


@dataclass(frozen=True, slots=True)
class GatheredWeights:
    """How weights in shards are gathered for every pass (ZeRO-3, FSDP).

    Attributes:
        ahead: Beside the computation of the block before; else when their block is at work.
        keep: They stay until the backward pass.
        scatter_each: Gradients are scattered after every backward pass.
    """

    ahead: bool = True
    keep: bool = False
    scatter_each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """A step, from the analytical model.

    Attributes:
        kinds: Blocks of each kind.
        stack: The kind of each block, from the first to the last.
        first, last: What stands before the first block and after the last one, if anything does.
        last_beside_first: The latter where both are on one stage, and the weights of one may be those of the other.
        stage_blocks: Blocks of each pipeline stage.
        recompute_blocks: Blocks of each stage that full recompute concerns; 0 for all.
        schedule: Order of the passes that the strategy names; "1f1b" whatever the number of chunks.
        chunks, microbatches: vpp, and microbatches of a step.
        replicas: Processors that run each stage's program: tp · cp · dp.
        training: Whether there are backward passes.
        message: Between stages, in either direction; None for a single stage.
        transfer: What the collective of a group takes, given its group, opcode (or "ring") and bytes.
        gathered: How weights in shards are gathered for passes; None where they are whole.
        reduced_each: Whether whole gradients are exchanged in every microbatch.
        tied: Exchange of the gradients that first and last stage have in common, if any.
        overlapped: Whether gradients may be exchanged beside backward passes.
        processor_usage: Share of compute that this takes meanwhile.
    """

    kinds: tuple[BlockWork, ...]
    stack: tuple[int, ...]
    first: BlockWork | None = None
    last: BlockWork | None = None
    last_beside_first: BlockWork | None = None
    stage_blocks: tuple[int, ...]
    recompute_blocks: int = 0
    schedule: Schedule = "1f1b"
    chunks: int
    microbatches: int
    replicas: int
    training: bool
    message: Transfer | None
    transfer: Callable[[str, str, float], Transfer]
    gathered: GatheredWeights | None = None
    reduced_each: bool = False
    tied: Exchange | None = None
    overlapped: bool = False
    processor_usage: float = 0.0

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return len(self.stage_blocks)

    @property
    def exchanged(self) -> bool:
        """Whether gradients are exchanged other than by the passes themselves."""
        in_passes = self.gathered is not None and self.gathered.scatter_each
        return self.training and not in_passes and any(block.gradients for block in self.all_blocks())

    def all_blocks(self) -> Iterator[BlockWork]:
        """Every block that there is, once."""
        for block in (*self.kinds, self.first, self.last, self.last_beside_first):
            if block is not None:
                yield block
                if block.kept is not None:
                    yield block.kept

    def with_blocks(self, changed: Callable[[BlockWork], BlockWork]) -> StepWork:
        """The step with other blocks."""

        def optional(block: BlockWork | None) -> BlockWork | None:
            return None if block is None else replace(changed(block), kept=optional(block.kept))

        return replace(
            self,
            kinds=tuple(replace(changed(block), kept=optional(block.kept)) for block in self.kinds),
            first=optional(self.first),
            last=optional(self.last),
            last_beside_first=optional(self.last_beside_first),
        )

    def exchanges(self, blocks: list[BlockWork]) -> list[Transfer]:
        """What reduces the gradients of some blocks together."""
        return self._together([exchange for block in blocks for exchange in block.gradients])

    def gathers(self, blocks: list[BlockWork]) -> list[Transfer]:
        """What gathers the weights of some blocks together."""
        return self._together([exchange for block in blocks for exchange in block.weights])

    def _together(self, exchanges: list[Exchange]) -> list[Transfer]:
        sizes: dict[tuple[str, str], float] = {}
        for exchange in exchanges:
            key = exchange.group, exchange.opcode
            sizes[key] = sizes.get(key, 0.0) + exchange.size
        return [self.transfer(group, opcode, size) for (group, opcode), size in sizes.items()]
