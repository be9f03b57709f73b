"""Proof that older code gives the same numbers up to rounding."""
