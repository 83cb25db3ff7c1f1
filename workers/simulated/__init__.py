"""The runtime in simulated time, under drawn plans, interleavings and faults, and what judges its runs.

Workers, stores and sinks are the real ones where that can be; hosts, networks, disks, sources and the driver are simulated, so that a
run is a function of its seed (R16). `simulation.simulate` makes one run, `campaign.simulate_seeds` many.
"""
