// Starts an agent, follows it, answers one permission request, and goes on after a cut.
//
// Run it in a folder that is registered (obey campaign add .). It needs no key: the agent is the built-in scripted one,
// which does what its prompt says. For a real one, use the provider "claude-code" and a prompt of your own. Needs the
// package obey-client; compile it with `tsc` or run it with Node 22.18 or newer as it is.

import { realpathSync } from "node:fs";

import { ObeyClient } from "obey-client";

const script = [
  { text: "I will list the folder. " },
  { tool: "Bash", input: { command: "ls" }, ask: true, result: "README.md" },
  { text: "Done: one file." },
];
const prompt = `List the folder. SCRIPT: ${JSON.stringify(script)}`;

let obey = new ObeyClient();
const campaign = await obey.campaignOf(realpathSync("."));
const session = await obey.createSession(campaign.id, { provider: "scripted", mode: "supervised" });
console.log(`created   ${session.id} in ${campaign.path}`);
const sent = await obey.send(session.id, prompt);
let last = await follow(obey, sent.seq - 1, "request_opened");
obey.close();

// The connection is gone; the agent waits. Another process could go on from here: all it needs is the number.
obey = new ObeyClient();
const [request] = await obey.requests(session.id);
if (!request) throw new Error("nothing waits for an answer");
console.log(`allowed   ${request.tool} ${JSON.stringify(request.input)}`);
await obey.allow(request);
last = await follow(obey, last, "turn_ended");
await obey.stop(session.id);
console.log(`stopped   after event ${last}`);
obey.close();

/** Follows the session until an event of a type, and returns its number. */
async function follow(obey: ObeyClient, after: number, until: string): Promise<number> {
  for await (const event of obey.events(session.id, { after })) {
    if (event.seq !== after + 1) throw new Error("numbers have no gaps");
    after = event.seq;
    console.log(`event ${String(event.seq).padStart(3)} ${event.type} ${String(event.data["text"] ?? "")}`);
    if (event.type === until) return after;
  }
  throw new Error(`the session ended before ${until}`);
}
