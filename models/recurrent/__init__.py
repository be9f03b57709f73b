"""Recurrent networks with gates: their YAML files lie in ``models/``."""
