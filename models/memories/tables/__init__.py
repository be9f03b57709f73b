"""Tables of distinct keys, answered by the nearest: all of them, so many of them, or by a hash."""
