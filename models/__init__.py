"""Architectures: one plain PyTorch file each, with the YAML file of its defaults beside it."""
