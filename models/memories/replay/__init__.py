"""Memories that train again on what they make up, in place of what they were given."""
