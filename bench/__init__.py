"""The performance budgets of memtape, one module per part of it: `python -m bench [NAME] [--quick] [--json]`."""
