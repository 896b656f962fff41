"""Network models: what messages on shared links take, from no contention to max-min fair flows."""

from codesign_opt.simulation.networks.fifo import FifoNetwork
from codesign_opt.simulation.networks.fit import AlphaBeta, fit_alpha_beta
from codesign_opt.simulation.networks.flows import FlowNetwork, flow_completion_times
from codesign_opt.simulation.networks.latency_bandwidth import (
    LatencyBandwidthNetwork,
    astra_sim_nanoseconds,
    message_times,
)
from codesign_opt.simulation.networks.max_min import certificate, max_min_rates
from codesign_opt.simulation.networks.network import Delivery, LinkStatistics, Network

__all__ = [
    "AlphaBeta",
    "Delivery",
    "FifoNetwork",
    "FlowNetwork",
    "LatencyBandwidthNetwork",
    "LinkStatistics",
    "Network",
    "astra_sim_nanoseconds",
    "certificate",
    "fit_alpha_beta",
    "flow_completion_times",
    "max_min_rates",
    "message_times",
]
