"""Real kills, with counts of lost and repeated outputs and recovery times (`python -m experiments.crash`)."""
