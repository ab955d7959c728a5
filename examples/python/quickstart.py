"""Starts an agent, follows it, answers one permission request, and goes on after a cut.

Run it in a folder that is registered (obey campaign add .): python3 quickstart.py. It needs no key: the agent is the
built-in scripted one, which does what its prompt says. For a real one, use the provider "claude-code" and a prompt of your
own. Needs the package obey-client.
"""

import json

from obey_client import ObeyClient

SCRIPT = [
    {"text": "I will list the folder. "},
    {"tool": "Bash", "input": {"command": "ls"}, "ask": True, "result": "README.md"},
    {"text": "Done: one file."},
]
PROMPT = f"List the folder. SCRIPT: {json.dumps(SCRIPT)}"


def main() -> None:
    with ObeyClient() as obey:
        campaign = obey.campaign_of(".")
        session = obey.create_session(campaign, "scripted", mode="supervised")
        print(f"created   {session.id} in {campaign.path}")
        sent = obey.send(session.id, PROMPT)
        last = follow_until_asked(obey, session.id, after=sent.seq - 1)

    # The connection is gone; the agent waits. Another process could go on from here: all it needs is the number.
    with ObeyClient() as obey:
        [request] = obey.requests(session.id)
        print(f"allowed   {request.tool} {dict(request.input)}")
        obey.allow(request)
        for event in obey.events(session.id, after=last):
            assert event.seq == last + 1, "numbers have no gaps"
            last = event.seq
            print(f"event {event.seq:3} {event.type} {event.data.get('text', '')}")
            if event.type == "turn_ended":
                break
        obey.stop(session.id)
        print(f"stopped   after event {last}")


def follow_until_asked(obey: ObeyClient, session: str, after: int) -> int:
    """Follows a session until its agent asks for a permission, then cuts the connection."""
    for event in obey.events(session, after=after):
        assert event.seq == after + 1, "numbers have no gaps"
        after = event.seq
        print(f"event {event.seq:3} {event.type} {event.data.get('text', '')}")
        if event.type == "request_opened":
            return after
    raise SystemExit("the session ended without a request")


main()
