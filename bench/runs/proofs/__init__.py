"""Proofs that older code gives the same numbers: by definitions, or by short runs."""
