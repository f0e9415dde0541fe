"""An MCP server for tests that writes the files that it is told, below the folder in which it runs."""

from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def save(path: str, content: str) -> str:
    """Saves a note."""
    Path(path).write_text(content)
    return f"saved {path}"


if __name__ == "__main__":
    server.run("stdio")
