"""Rules for expert parallelism: experts are split among `ep`, and each among `etp`, of the processors of one stage."""

from __future__ import annotations

from codesign_opt.strategies.rules.rule import Rule, Values, constant, divides, divisors, next_to

RULES: tuple[Rule, ...] = (
    Rule(
        "experts_missing", True,
        lambda f: ~f.has_experts & ((f["ep"] > 1) | (f["etp"] > 1)),
        "ep {ep} and etp {etp}, but the blocks have no experts",
        constant("ep and etp must be 1"),
    ),
    Rule(
        "experts_ep", True,
        lambda f: f.has_experts & (f.experts("count") % f.divisor("ep") != 0),
        "{experts} experts are not a multiple of ep {ep}",
        divides("experts", "ep"),
    ),
    Rule(
        "expert_mesh", True,
        lambda f: f.has_experts & (f.divisor("tp") * f.replicas % (f.divisor("ep") * f.divisor("etp")) != 0),
        "etp {etp} x ep {ep} = {ep_x_etp} does not divide the {stage_processors} processors of a stage "
        "(tp {tp} x cp {cp} x dp {dp})",
        lambda v: _ep_of_mesh(v),
    ),
    Rule(
        "etp_tp", True,
        lambda f: f.has_experts & (f["tp"] % f.divisor("etp") != 0),
        "tp {tp} is not a multiple of etp {etp}: an expert is split within a tensor-parallel group",
        divides("tp", "etp"),
    ),
    Rule(
        "expert_feedforward_etp", True,
        lambda f: f.has_experts & (f.experts("feedforward") % f.divisor("etp") != 0),
        "feedforward {expert_feedforward} of an expert is not a multiple of etp {etp}",
        divides("expert_feedforward", "etp"),
    ),
    Rule(
        "shared_feedforward_tp", True,
        lambda f: f.experts("shared_feedforward") % f.divisor("tp") != 0,
        "feedforward {shared_feedforward} of the shared experts is not a multiple of tp {tp}",
        divides("shared_feedforward", "tp"),
    ),
)  # fmt: skip
"""In the order in which they are judged."""


def _ep_of_mesh(values: Values) -> str:
    """The nearest ep that divides what etp leaves of a stage, and the experts; or that etp leaves nothing whole."""
    each, rest = divmod(values["stage_processors"], max(values["etp"], 1))
    if rest or each < 1:
        return f"etp may be {next_to(values['etp'], divisors(values['stage_processors']))}"
    allowed = [ep for ep in divisors(each) if values["experts"] % ep == 0]
    smaller = ", or etp smaller" if values["etp"] > 1 else ""
    return f"with etp {values['etp']}, ep may be {next_to(values['ep'], allowed)}{smaller}"
