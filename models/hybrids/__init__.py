"""Models of layers of two kinds; their YAML files lie in ``models/``."""
