"""Document memory: the owner's rules, the agent's notes and reports, searched with citations of their lines."""
