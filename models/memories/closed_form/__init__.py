"""Memories of two layers in closed form."""
