"""Public packages of this field, examined; see ``python -m tests.public_packages --help``."""
