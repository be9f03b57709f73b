"""Memories that are written and read while they are used, one file each."""
