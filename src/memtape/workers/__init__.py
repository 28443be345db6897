"""What runs beside the agents on a schedule: `schedule` draws lessons that are due, `following` reads a live account."""
