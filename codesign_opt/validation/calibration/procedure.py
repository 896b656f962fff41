"""How a calibration is made: once over all generations of processors, then generation by generation around that.

The first fit says what an unmeasured generation is like; each generation then moves away from it as far as its own rows
demand. With one family of runs left out in turn, the same two fits say how wrong a calibration is on runs that it has
not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from codesign_opt.validation.calibration.fitting import LEAST_ROWS, Fitted, Prior, TimedRows, fit
from codesign_opt.validation.calibration.generations import GENERATIONS, PUBLISHED, generation_of
from codesign_opt.validation.calibration.parameters import PARAMETERS, priors
from codesign_opt.validation.calibration.rows import fitted_rows, thinned
from codesign_opt.validation.mapping import MappedRun

OVER_ALL = 40
"""Rows of each family in the fit over all generations."""

OF_GENERATION = 80
"""Rows of each family in the fit of a generation."""

FEWEST_OWN_ROWS = 3
"""Rows of one's own that must depend on a parameter for it to move away from the shipped calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The parameters of one generation of processors.

    Attributes:
        generation: Its name (`generations.GENERATIONS`).
        parameters: What was fitted, and what was not, by name.
        rows: How many runs of this generation it was fitted to.
        families: The collections that they come from.
        without: For each of these, the values fitted without its runs.
    """

    generation: str
    parameters: Mapping[str, Fitted]
    rows: int
    families: tuple[str, ...]
    without: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """The values of all parameters."""
        return {name: fitted.value for name, fitted in self.parameters.items()}


def calibrate(
    runs: Sequence[MappedRun], *, progress: Callable[[str], None] | None = None, held_out: bool = True
) -> list[Calibration]:
    """A calibration for every generation.

    Args:
        runs: Mapped runs; those that `rows.fitted_rows` chooses are used.
        progress: Called with the name of each fit before it begins.
        held_out: Whether the values without each family are wanted as well.
    """
    used = fitted_rows(runs)
    fits = _Fits(used, progress or (lambda name: None))
    whole = fits.all_generations("")
    found = {name: fits.generation(name, whole, "") for name in GENERATIONS}
    without: dict[str, dict[str, Mapping[str, float]]] = {name: {} for name in GENERATIONS}
    for family in sorted({run.run.family for run in used}) if held_out else ():
        rest = fits.all_generations(family, start=whole)
        for name in GENERATIONS:
            if family in fits.families(name):
                again = fits.generation(name, rest, family, start=_values(found[name]))
                without[name][family] = _values(again)
    return [
        Calibration(
            generation=name,
            parameters=found[name],
            rows=fits.rows(name),
            families=fits.families(name),
            without=without[name],
        )
        for name in GENERATIONS
    ]


def calibrate_own(shipped: Calibration, runs: Sequence[MappedRun]) -> Calibration:
    """A calibration of one's own machine: the shipped one of its generation, moved as far as one's runs demand.

    Args:
        shipped: The calibration to begin with.
        runs: One's runs, of that generation; all that have a time are used.
    """
    timed = [run for run in runs if run.measured_seconds is not None]
    spreads = {parameter.name: parameter.between for parameter in PARAMETERS}
    prior = Prior(values=shipped.values, spreads=spreads)
    parameters = fit(TimedRows(timed), PARAMETERS, prior, least_rows=FEWEST_OWN_ROWS, one_family=True)
    families = tuple(sorted({run.run.family for run in timed}))
    return Calibration(generation=shipped.generation, parameters=parameters, rows=len(timed), families=families)


class _Fits:
    """The fits over some runs."""

    def __init__(self, runs: Sequence[MappedRun], progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._all = TimedRows(thinned(runs, OVER_ALL))
        self._of = {name: [run for run in runs if generation_of(run) == name] for name in GENERATIONS}
        self._timed = {
            name: TimedRows(thinned(members, OF_GENERATION)) for name, members in self._of.items() if members
        }

    def rows(self, generation: str) -> int:
        return len(thinned(self._of[generation], OF_GENERATION))

    def families(self, generation: str) -> tuple[str, ...]:
        return tuple(sorted({run.run.family for run in self._of[generation]}))

    def all_generations(self, without: str, start: Mapping[str, float] | None = None) -> dict[str, float]:
        self._progress("all generations" + (f", without {without}" if without else ""))
        spreads = {parameter.name: parameter.spread for parameter in PARAMETERS}
        prior = Prior(values=priors(), spreads=spreads)
        return _values(fit(self._all, PARAMETERS, prior, without=without, start=start))

    def generation(
        self, name: str, middle: Mapping[str, float], without: str, start: Mapping[str, float] | None = None
    ) -> dict[str, Fitted]:
        published = {parameter: value for parameter, (value, _) in PUBLISHED.get(name, {}).items()}
        values = {**middle, **published}
        rows = self._timed.get(name)
        if rows is None or set(rows.families.tolist()) <= {without}:
            return {
                parameter: Fitted(value=value, prior=value, error=0.0, rows=0, families=0, held="no rows")
                for parameter, value in values.items()
            }
        self._progress(name + (f", without {without}" if without else ""))
        spreads = {parameter.name: parameter.between for parameter in PARAMETERS}
        return fit(rows, PARAMETERS, Prior(values=values, spreads=spreads), without=without, start=start,
                   least_rows=LEAST_ROWS)  # fmt: skip


def _values(parameters: Mapping[str, Fitted]) -> dict[str, float]:
    return {name: fitted.value for name, fitted in parameters.items()}
