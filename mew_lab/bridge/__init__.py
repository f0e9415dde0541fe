"""Connects MCP servers to spaces as participants, and serves MCP clients."""
