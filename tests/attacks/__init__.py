"""Attacks by a model that calls memtape's own tools."""
