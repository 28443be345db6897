"""Studies of what memtape claims: how often a lesson is luck, how many beliefs one edge gives, what a brief costs.

`make evidence` runs every study with fixed seeds and writes `docs/evidence.md`. The suite runs a small version of each
(`tests/evidence`). A study is a module here with a function `study(scale)`; `evidence/__main__.py` lists them.
"""
