"""Reads /metrics with Prometheus' own parser, and checks that what it says is what happened.

Usage: observe.py FILE, a saved answer of /metrics after one turn with one permission. Prints one line per check and ends
with code 1 at the first that fails.
"""

import sys

from prometheus_client.parser import text_string_to_metric_families


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


families = {family.name: family for family in text_string_to_metric_families(open(sys.argv[1]).read())}


def value(name, **labels):
    """The value of one sample; counters are named with _total."""
    samples = [sample for family in families.values() for sample in family.samples]
    found = [one.value for one in samples if one.name == name and labels.items() <= one.labels.items()]
    check(f"{name}{labels or ''} is there once", len(found) == 1, found)
    return found[0]


check("every name begins with obey_", all(name.startswith("obey_") for name in families), list(families))
check("every family has help and a type", all(f.documentation and f.type != "untyped" for f in families.values()),
      [f.name for f in families.values() if not f.documentation or f.type == "untyped"])
states = {sample.labels["state"]: sample.value for sample in families["obey_sessions"].samples}
wanted = {"needs_you", "failed", "working", "quiet", "done", "idle", "ended"}
check("sessions by every state", set(states) == wanted, states)
check("one session, which waits for a person", states["needs_you"] == 1 and sum(states.values()) == 1, states)
check("a permission waits", value("obey_permissions_waiting") == 1)
check("an agent runs", value("obey_agents_running") == 1)
check("events and their bytes", value("obey_events_total") > 3 and value("obey_event_bytes_total") > 100)
check("commits were measured", value("obey_commit_seconds_count") > 0)
check("first outputs were measured", value("obey_first_output_seconds_count") >= 1)
check("one permission was allowed", value("obey_permissions_total", outcome="allowed") == 1)
check("its wait was measured", value("obey_permission_wait_seconds_count") == 1)
check("a secret was removed", value("obey_scrubs_total") >= 1)
check("a refusal was counted", value("obey_refusals_total", caller="agent") == 0)
check("calls were counted", value("obey_requests_total", protocol="grpc", outcome="ok") > 3)
check("queues", value("obey_queue_depth", queue="prompts") == 1 and value("obey_queue_depth", queue="store_writes") >= 0)
check("the journal on disk", value("obey_journal_bytes") > 0 and value("obey_disk_free_bytes") > 0)
check("a budget", value("obey_budget_sessions") == 1 and value("obey_budget_max_tokens") == 1000000)
