"""Torus and mesh of any number of dimensions: products of rings and of lines."""

from __future__ import annotations

from collections.abc import Sequence

from codesign_opt.errors import InputError
from codesign_opt.simulation.topologies.line import line
from codesign_opt.simulation.topologies.product import product
from codesign_opt.simulation.topologies.ring import ring
from codesign_opt.simulation.topologies.topology import Link, Topology


def torus(widths: Sequence[int], links: Sequence[Link]) -> Topology:
    """A torus W × H (× D …); processor x + W·y (+ W·H·z …).

    Messages go the shorter way round, at a tie towards higher places, and correct the first dimension first.
    A dimension of width 2 has one link each way between its two places, not two parallel ones.

    Args:
        widths: Places along each dimension, at least 2.
        links: What the links along each dimension can do.

    Raises:
        InputError: For a width below 2, or not one link a dimension.
    """
    _check_dimensions("torus", widths, links)
    return product([ring(width, link) for width, link in zip(widths, links, strict=True)], name=_name("torus", widths))


def mesh(widths: Sequence[int], links: Sequence[Link]) -> Topology:
    """A torus without the links that close its rings. Dimension order.

    Raises:
        InputError: As for `torus`.
    """
    _check_dimensions("mesh", widths, links)
    return product([line(width, link) for width, link in zip(widths, links, strict=True)], name=_name("mesh", widths))


def _check_dimensions(name: str, widths: Sequence[int], links: Sequence[Link]) -> None:
    if len(widths) != len(links):
        raise InputError(f"{name}: links: {len(links)} for {len(widths)} dimensions", "one a dimension")


def _name(kind: str, widths: Sequence[int]) -> str:
    return f"{kind} {'×'.join(str(width) for width in widths)}"
