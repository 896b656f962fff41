"""Topologies: who is linked to whom, and the route of every message."""

from codesign_opt.simulation.topologies.bare import bare_links
from codesign_opt.simulation.topologies.concentration import concentrated
from codesign_opt.simulation.topologies.description import describe
from codesign_opt.simulation.topologies.dragonfly import dragonfly
from codesign_opt.simulation.topologies.full_mesh import full_mesh
from codesign_opt.simulation.topologies.line import line
from codesign_opt.simulation.topologies.product import product
from codesign_opt.simulation.topologies.rail import rail_optimised
from codesign_opt.simulation.topologies.ring import ring
from codesign_opt.simulation.topologies.switch import switch
from codesign_opt.simulation.topologies.tiers import topology_of
from codesign_opt.simulation.topologies.topology import Link, Topology
from codesign_opt.simulation.topologies.torus import mesh, torus
from codesign_opt.simulation.topologies.tree import fat_tree, leaf_spine, uplink_bandwidth

__all__ = [
    "Link",
    "Topology",
    "bare_links",
    "concentrated",
    "describe",
    "dragonfly",
    "fat_tree",
    "full_mesh",
    "leaf_spine",
    "line",
    "mesh",
    "product",
    "rail_optimised",
    "ring",
    "switch",
    "topology_of",
    "torus",
    "uplink_bandwidth",
]
