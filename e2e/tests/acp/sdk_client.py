"""Drives `obey acp` with the published Python SDK: sdk_client.py AGENT_COMMAND FOLDER PROMPTS_JSON

Prints one JSON object with what it saw; any surprise is an exception.
"""

import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, ClientCapabilities, Implementation, RequestPermissionResponse

COMMAND, FOLDER, PROMPTS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


class Client:
    def __init__(self):
        self.updates, self.permissions = [], 0

    def on_connect(self, conn):
        pass

    async def request_permission(self, options, session_id, tool_call, **_):
        self.permissions += 1
        option = next(option for option in options if option.kind == "allow_once")
        outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(type(update).__name__)

    async def ext_notification(self, method, params):
        raise AssertionError(f"{method} is not part of the protocol")

    async def ext_method(self, method, params):
        raise AssertionError(f"{method} is not part of the protocol")


async def initialized(conn):
    hello = await conn.initialize(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=ClientCapabilities(),
        client_info=Implementation(name="py-client", version="1"),
    )
    assert hello.protocol_version == 1 and hello.agent_info.name == "obey", hello


async def main():
    client, stops = Client(), []
    async with spawn_agent_process(client, COMMAND, env=dict(os.environ)) as (conn, _):
        await initialized(conn)
        session = (await conn.new_session(cwd=FOLDER, mcp_servers=[])).session_id
        for name in ("say", "ask"):
            answer = await conn.prompt(session_id=session, prompt=[text_block(PROMPTS[name])])
            stops.append(answer.stop_reason)
        before = len(client.updates)
        turn = asyncio.create_task(conn.prompt(session_id=session, prompt=[text_block(PROMPTS["hang"])]))
        while len(client.updates) == before:
            await asyncio.sleep(0.02)
        await conn.cancel(session_id=session)
        stops.append((await turn).stop_reason)
    live = len(client.updates)
    async with spawn_agent_process(client, COMMAND, env=dict(os.environ)) as (conn, _):
        await initialized(conn)
        await conn.load_session(cwd=FOLDER, session_id=session, mcp_servers=[])
    replayed = len(client.updates) - live
    print(json.dumps({"stops": stops, "permissions": client.permissions, "live": live, "replayed": replayed}))


asyncio.run(main())
