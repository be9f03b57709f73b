"""Tasks: one folder each (data, protocol, metrics), with the YAML file of its settings beside."""
