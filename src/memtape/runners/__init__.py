"""Who executes an agent: a Python function, a language model with tools, or the Claude Code command line."""
