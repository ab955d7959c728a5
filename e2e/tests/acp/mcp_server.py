"""A server of tools over standard input and output, for tests: one tool that tells what is in its environment."""

import json
import os
import sys


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    call = json.loads(line)
    id, method = call.get("id"), call.get("method")
    if method == "initialize":
        version = call["params"]["protocolVersion"]
        info = {"name": "lab", "version": "1"}
        say({"id": id, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        tool = {"name": "secret", "description": "tells the secret", "inputSchema": {"type": "object"}}
        say({"id": id, "result": {"tools": [tool]}})
    elif method == "tools/call":
        text = os.environ.get("SECRET", "none")
        say({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
    elif id is not None:
        say({"id": id, "result": {}})
