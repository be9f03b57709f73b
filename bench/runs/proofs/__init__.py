"""Proofs that older code gives the same numbers: by definitions, by runs, or up to rounding."""
