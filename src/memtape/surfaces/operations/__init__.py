"""Every operation of memtape, once. The command line, MCP, HTTP and the pages all call these; each module is one noun.

The register imports the modules: all of them for a server, only the one that is needed for a command.
"""
