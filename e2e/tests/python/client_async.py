"""The installed package obey-client: with asyncio, across `kill -9` of the daemon, with keys and permissions.

Usage: client_async.py OBEY PROJECT. Ends with code 1 at the first check that fails.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys

from obey_client import AsyncObeyClient, ObeyClient, ObeyError


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def script(*steps):
    return f"SCRIPT: {json.dumps(steps)}"


async def main():
    obey, project = sys.argv[1:3]
    async with AsyncObeyClient() as client:
        campaign = await client.campaign_of(project)
        first = await client.create_session(campaign, "scripted", mode="supervised", key="k1")
        again = await client.create_session(campaign, "scripted", mode="supervised", key="k1")
        check("the same key is the same session", first.id == again.id, (first, again))
        gate = os.path.join(os.environ["TMPDIR"], "gate")
        text = script({"text": "one "}, {"wait_file": gate}, {"tool": "Bash", "input": {"command": "ls"}, "ask": True,
                                                               "result": "x"}, {"text": "two"})
        sent = await client.send(first.id, text, key="p1")
        twice = await client.send(first.id, text, key="p1")
        check("the same key is one prompt", sent.seq == twice.seq and sent.turn_id == twice.turn_id, (sent, twice))
        seqs, killed = [], False
        async for event in client.events(first.id):
            seqs.append(event.seq)
            if event.type == "text_delta" and not killed:
                killed = True
                pid = (await client.ping()).pid
                os.kill(pid, signal.SIGKILL)
                # The next command starts a daemon; the agent has gone on meanwhile.
                subprocess.run([obey, "ping"], check=True, stdout=subprocess.DEVNULL)
                open(gate, "w").close()
            if event.type == "request_opened":
                [request] = await client.requests(first.id)
                check("the request is about its tool", request.tool == "Bash" and request.kind == "permission", request)
                check("the first answer counts", await client.allow(request))
                check("the second does not", not await client.deny(request, "too late"))
            if event.type == "turn_ended":
                check("the turn completed", event.data["reason"] == "completed", event)
                break
        check("no event was missed or repeated", seqs == list(range(1, len(seqs) + 1)), seqs)
        rows = await client.overview()
        check("the overview shows it", [row.session_id for row in rows] == [first.id], rows)
        try:
            await client.session("sess_none")
            check("an unknown session is refused", False)
        except ObeyError as error:
            check("errors have a code", error.code.startswith("OBEY-"), error)
        await client.stop(first.id)
    with ObeyClient() as client:
        check("the other client sees the same", client.session(first.id).id == first.id)
        listed = [session.id for session in client.sessions(include_ended=True)]
        check("it lists ended sessions", listed == [first.id], listed)
        events = list(client.events(first.id, follow=False))
        check("it reads the whole journal", [event.seq for event in events] == list(range(1, len(events) + 1)))


asyncio.run(main())
