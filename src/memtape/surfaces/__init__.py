"""How memtape is reached: command line, MCP, HTTP and pages, all derived from one list of operations."""
