"""Real kills: what is lost, what comes twice, how long it takes (`python -m experiments.crash`)."""
