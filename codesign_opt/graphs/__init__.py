"""Program graphs: instructions of compute and communication, and what must have finished before each."""

from codesign_opt.graphs.builder import GraphBuilder
from codesign_opt.graphs.files import read_graph, write_graph
from codesign_opt.graphs.graph import Graph, Ragged
from codesign_opt.graphs.individual import individual_graph, individual_graphs, processors_of
from codesign_opt.graphs.summary import GraphSummary, graph_summary
from codesign_opt.graphs.tools import drop_disconnected, enforce_post_order, extend_data_parallel, trim
from codesign_opt.graphs.validity import check_graph

__all__ = [
    "Graph",
    "GraphBuilder",
    "GraphSummary",
    "Ragged",
    "check_graph",
    "drop_disconnected",
    "enforce_post_order",
    "extend_data_parallel",
    "graph_summary",
    "individual_graph",
    "individual_graphs",
    "processors_of",
    "read_graph",
    "trim",
    "write_graph",
]
