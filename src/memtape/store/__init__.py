"""Where memory is kept: SQL written once, run on embedded SQLite or on PostgreSQL."""
