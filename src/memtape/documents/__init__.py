"""Document memory: the owner's rules, the agent's notes and reports, found again with the lines they stand on."""
