"""Figures of a run as it goes on: of a sink, of a host, of all hosts together, and over all generations."""
