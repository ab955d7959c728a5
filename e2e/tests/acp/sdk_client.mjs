// Drives `obey acp` with the published TypeScript SDK: sdk_client.mjs SDK_FOLDER AGENT_COMMAND FOLDER PROMPTS_JSON
// PROMPTS_JSON: {"say": …, "ask": …, "hang": …}. Prints one JSON object with what it saw; any surprise is an exit code.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, command, folder, prompts] = process.argv.slice(2);
const acp = await import(pathToFileURL(path.join(sdk, "dist/v1/stable/acp.js")));
const { say, ask, hang } = JSON.parse(prompts);
const seen = { updates: [], permissions: 0, reads: 0, stops: [] };

async function start(work) {
  const child = spawn(command, [], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const ended = new Promise((done) => child.on("exit", (code) => done(code)));
  const client = acp
    .client({ name: "sdk-client" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.permissions += 1;
      const option = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .onRequest(acp.methods.client.fs.readTextFile, async ({ params }) => {
      seen.reads += 1;
      return { content: await readFile(params.path, "utf8") };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
    });
  const result = await client.connectWith(stream, async (context) => {
    const hello = await context.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: false }, terminal: false },
      clientInfo: { name: "sdk-client", version: "1" },
    });
    if (hello.protocolVersion !== 1) throw new Error("version " + hello.protocolVersion);
    return work(context);
  });
  child.stdin.end();
  const code = await ended;
  if (code !== 0) throw new Error("obey acp ended with " + code);
  return result;
}

const text = (text) => [{ type: "text", text }];
const sessionId = await start(async (context) => {
  const { sessionId, modes } = await context.request(acp.methods.agent.session.new, { cwd: folder, mcpServers: [] });
  if (modes.currentModeId !== "supervised") throw new Error("mode " + modes.currentModeId);
  for (const prompt of [say, ask]) {
    const { stopReason } = await context.request(acp.methods.agent.session.prompt, { sessionId, prompt: text(prompt) });
    seen.stops.push(stopReason);
  }
  const before = seen.updates.length;
  const turn = context.request(acp.methods.agent.session.prompt, { sessionId, prompt: text(hang) });
  while (seen.updates.length === before) await new Promise((look) => setTimeout(look, 20));
  await context.notify(acp.methods.agent.session.cancel, { sessionId });
  seen.stops.push((await turn).stopReason);
  return sessionId;
});
seen.live = seen.updates.length;
await start(async (context) => {
  const { sessions } = await context.request(acp.methods.agent.session.list, { cwd: folder });
  if (!sessions.some((session) => session.sessionId === sessionId)) throw new Error("not listed");
  await context.request(acp.methods.agent.session.load, { sessionId, cwd: folder, mcpServers: [] });
});
seen.replayed = seen.updates.length - seen.live;
console.log(JSON.stringify(seen));
process.exit(0);
