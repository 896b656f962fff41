"""Fitting parameters to step times: robust least squares on log(predicted / measured), with priors and bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from codesign_opt.validation.calibration.machines import calibrated_system
from codesign_opt.validation.calibration.parameters import Parameter, from_scale, to_scale
from codesign_opt.validation.calibration.prepared import PreparedRows
from codesign_opt.validation.mapping import MappedRun

Array = NDArray[Any]

ERROR_SCALE = 0.1
"""Error, as a logarithm, beyond which a row counts by its size and no longer by its square."""

LEAST_ROWS = 20
"""Rows that must depend on a parameter for it to be fitted."""

_DEPENDS = 0.01
"""Change of log(step time), for one standard deviation of a parameter, from which on a row depends on it."""

_DETERMINED = 0.5
"""Share of a prior's variance below which the data must bring that of a parameter; else it stays at its prior."""

_SHARED = 0.25
"""Rows of a family share their errors: n of them weigh as much as n^(1 - 2 · this) rows that do not."""

_STEP = 0.05
"""Step of finite differences, in standard deviations of a prior. Curves have steps: a smaller one would see edges."""

_TOLERANCE = 1e-3
"""Relative change at which a fit ends."""

_EVALUATIONS = 12
"""Points that a fit visits at most."""

_BEYOND = 1e-9
"""By which bounds are passed, so that a fit may begin on them."""

_ROUNDS = 3
"""Rounds in which parameters that turn out not to be determined go back to their priors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """One parameter after a fit.

    Attributes:
        value: Its value.
        prior: That of its prior.
        error: Standard error on the parameter's scale; 0 where it was not fitted.
        rows, families: Rows that depend on it, and their families.
        held: Why it stays at its prior; empty where it was fitted.
    """

    value: float
    prior: float
    error: float
    rows: int
    families: int
    held: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Normal distributions on the parameters' scales: middles by value, and standard deviations."""

    values: Mapping[str, float]
    spreads: Mapping[str, float]


class Rows(Protocol):
    """Measured rows, and how far predictions are from them.

    Attributes:
        families: The family of each row.
    """

    families: Array

    def errors(self, values: Mapping[str, float]) -> Array:
        """log(predicted / measured) of every row, given parameters."""


class TimedRows:
    """Timed runs, prepared for fits."""

    def __init__(self, runs: Sequence[MappedRun]) -> None:
        self._prepared = PreparedRows(runs)
        self._measured = np.array([run.measured_seconds for run in runs], dtype=np.float64)
        self.families = np.array([run.run.family for run in runs])

    def errors(self, values: Mapping[str, float]) -> Array:
        """log(predicted / measured) of every step time."""
        systems = [calibrated_system(system, values) for system in self._prepared.systems]
        return np.asarray(np.log(self._prepared.seconds(systems) / self._measured))


def fit(
    rows: Rows,
    parameters: Sequence[Parameter],
    prior: Prior,
    *,
    without: str = "",
    start: Mapping[str, float] | None = None,
    least_rows: int = LEAST_ROWS,
    one_family: bool = False,
) -> dict[str, Fitted]:
    """Fit those parameters that the rows determine; the others stay at their prior.

    A parameter is fitted where at least `least_rows` rows depend on it, of more than one family where there are several
    altogether, and where the rows bring its variance below half of its prior's.

    Args:
        rows: Timed runs.
        parameters: What may be fitted.
        prior: Where parameters are without any rows.
        without: A family whose rows are left out.
        start: Where to begin; the prior otherwise.
        least_rows: See above.
        one_family: Whether one family is enough.
    """
    used = rows.families != without
    problem = _Problem(rows, used, parameters, prior)
    names = [parameter.name for parameter in parameters]
    values = dict(prior.values) if start is None else {**prior.values, **start}
    curvature = problem.curvature(values, names)
    several = len(set(rows.families[used].tolist())) > 1 and not one_family
    held = {
        name: why
        for name, (count, kinds) in curvature.support.items()
        if (why := _too_few(count, kinds, least_rows, several))
    }
    for _ in range(_ROUNDS):
        errors = curvature.standard_errors(set(names) - set(held))
        held |= dict.fromkeys(set(names) - set(held) - set(errors), "the rows do not determine it")
        values = values | {name: prior.values[name] for name in held}
        values = problem.solve([parameter for parameter in parameters if parameter.name not in held], values)
        curvature = replace(problem.curvature(values, list(errors)), support=curvature.support)
        again = curvature.standard_errors(set(errors))
        if len(again) == len(errors):
            break
    errors = again
    return {
        parameter.name: Fitted(
            value=values[parameter.name],
            prior=prior.values[parameter.name],
            error=errors.get(parameter.name, 0.0),
            rows=curvature.support[parameter.name][0],
            families=curvature.support[parameter.name][1],
            held=held.get(parameter.name, ""),
        )
        for parameter in parameters
    }


def _too_few(rows: int, families: int, least: int, several: bool) -> str:
    if rows < least:
        return f"fewer than {least} rows depend on it"
    return "rows of one family alone depend on it" if several and families < 2 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curvature:
    """How rows depend on parameters at a point, in standard deviations of their priors.

    Attributes:
        names: The parameters.
        jacobian: (row, parameter) derivatives of the weighted robust residuals.
        support: For each parameter the rows that depend on it, and their families.
    """

    names: Sequence[str]
    jacobian: Array
    support: Mapping[str, tuple[int, int]]
    spreads: Mapping[str, float]

    def standard_errors(self, free: Collection[str]) -> dict[str, float]:
        """Those of the free parameters that the rows determine, on their scales.

        As long as there is one that is not determined, the least determined is taken to be at its prior.
        """
        kept = [place for place, name in enumerate(self.names) if name in free]
        while kept:
            part = self.jacobian[:, kept]
            variances = np.diag(np.linalg.inv(part.T @ part + np.eye(len(kept))))
            if variances.max() <= _DETERMINED:
                break
            kept.pop(int(variances.argmax()))
        else:
            return {}
        names = [self.names[place] for place in kept]
        return {name: float(root) * self.spreads[name] for name, root in zip(names, np.sqrt(variances), strict=True)}


class _Problem:
    """Residuals of some rows and of the prior."""

    def __init__(self, rows: Rows, used: Array, parameters: Sequence[Parameter], prior: Prior) -> None:
        self._rows, self._used = rows, used
        self._by_name = {parameter.name: parameter for parameter in parameters}
        self._prior = prior
        families, counts = np.unique(rows.families[used], return_counts=True)
        weight = {str(family): count**-_SHARED for family, count in zip(families, counts, strict=True)}
        self._weights = np.array([weight[str(family)] for family in rows.families[used]])

    def curvature(self, values: Mapping[str, float], names: Sequence[str]) -> _Curvature:
        """How the rows depend on some parameters at a point."""
        here = self._rows.errors(values)[self._used]
        # As if every error were small: a row that is far off before the fit tells as much as any other.
        weight = self._weights / ERROR_SCALE
        columns, support = [], {}
        families = self._rows.families[self._used]
        for name in names:
            parameter, spread = self._by_name[name], self._prior.spreads[name]
            moved = parameter.off_scale(parameter.on_scale(values[name]) + _STEP * spread)
            effect = (self._rows.errors({**values, name: moved})[self._used] - here) / _STEP
            depends = np.abs(effect) > _DEPENDS
            support[name] = (int(depends.sum()), len(set(families[depends].tolist())))
            columns.append(effect * weight)
        jacobian = np.array(columns).reshape(len(names), len(here)).T
        return _Curvature(names=names, jacobian=jacobian, support=support, spreads=self._prior.spreads)

    def solve(self, free: Sequence[Parameter], values: Mapping[str, float]) -> dict[str, float]:
        """The best values of some parameters, the others fixed."""
        from scipy.optimize import least_squares

        if not free:
            return dict(values)
        spreads = np.array([self._prior.spreads[parameter.name] for parameter in free])
        middle = to_scale(self._prior.values, free)
        low = np.array([parameter.on_scale(parameter.low) for parameter in free])
        high = np.array([parameter.on_scale(parameter.high) for parameter in free])

        def residuals(units: Array) -> Array:
            point = {**values, **from_scale(middle + units * spreads, free)}
            return np.concatenate([self._robust(self._rows.errors(point)[self._used]), units])

        def slopes(units: Array) -> Array:
            return _jacobian(residuals, units)

        lowest, highest = (low - middle) / spreads, (high - middle) / spreads
        found = least_squares(
            residuals,
            np.clip((to_scale(values, free) - middle) / spreads, lowest, highest),
            jac=slopes,
            bounds=(lowest - _BEYOND, highest + _BEYOND),
            ftol=_TOLERANCE,
            xtol=_TOLERANCE,
            gtol=_TOLERANCE,
            max_nfev=_EVALUATIONS,
        )
        return {**values, **from_scale(middle + found.x * spreads, free)}

    def _robust(self, errors: Array) -> Array:
        """Residuals whose squares are the soft L1 loss of the errors, weighted (scipy's `soft_l1`)."""
        scaled = errors / ERROR_SCALE
        return np.asarray(self._weights * np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1)))


def _jacobian(residuals: Any, point: Array) -> Array:
    """Forward differences."""
    here = residuals(point)
    columns = []
    for place in range(len(point)):
        moved = point.copy()
        moved[place] += _STEP
        columns.append((residuals(moved) - here) / _STEP)
    return np.stack(columns, axis=1)
