"""Uses obey as an MCP server with the published Python client: http URL | stdio FOLDER COMMAND ARGUMENTS…

Prints one JSON object with what it saw; any surprise is an exit code."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main(kind, place, *words):
    if kind == "http":
        server = place
    else:
        server = StdioServerParameters(command=words[0], args=list(words[1:]), cwd=place, env=dict(os.environ))
    async with Client(server) as client:

        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            return json.loads(result.model_dump_json(by_alias=True))

        tools = (await client.list_tools()).tools
        written = [json.loads(tool.model_dump_json(by_alias=True)) for tool in tools]
        bash = next(tool for tool in written if tool["name"] == "safe_bash")
        reading = [tool["name"] for tool in written if (tool.get("annotations") or {}).get("readOnlyHint")]
        seen = {
            "server": client.server_info.name,
            "instructions": client.instructions or "",
            "tools": [tool["name"] for tool in written],
            "reading": reading,
            "schema": bash["inputSchema"],
            "bash": await call("safe_bash", cmd="pwd; echo $((6 * 7))"),
            "stored": await call("memory_store", title="the kettle", content="descale it in May"),
            "found": await call("memory_search", query="kettle"),
            "wrong": await call("safe_bash", cmd="true", timeout=900),
            "refused": await call("safe_bash", cmd="rm -rf /"),
            "ended": await call("session_end", outcome="success"),
            "again": await call("safe_read", path="kept.txt"),
        }
        done = await asyncio.gather(*(call("safe_bash", cmd=f"echo {n}") for n in range(4)))
        seen["parallel"] = len(done)
        try:
            seen["unknown"] = (await call("no_such_tool")).get("isError") is True
        except Exception:
            seen["unknown"] = True
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
