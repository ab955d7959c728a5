// Uses obey as an MCP server with the published TypeScript SDK:
// sdk_client.mjs SDK_FOLDER http URL | SDK_FOLDER stdio FOLDER COMMAND ARGUMENTS…
// Prints one JSON object with what it saw; any surprise is an exit code.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [sdk, kind, place, command, ...args] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(sdk, "dist/esm/client", file)));
const { Client } = await load("index.js");
const { StdioClientTransport } = await load("stdio.js");
const { StreamableHTTPClientTransport } = await load("streamableHttp.js");

const transport =
  kind === "http"
    ? new StreamableHTTPClientTransport(new URL(place))
    : new StdioClientTransport({ command, args, cwd: place, env: process.env });
const client = new Client({ name: "sdk-client", version: "1" });
await client.connect(transport);
const call = (name, input) => client.callTool({ name, arguments: input });
const tools = (await client.listTools()).tools;
const seen = {
  server: client.getServerVersion().name,
  instructions: client.getInstructions() ?? "",
  tools: tools.map((tool) => tool.name),
  reading: tools.filter((tool) => tool.annotations?.readOnlyHint).map((tool) => tool.name),
  schema: tools.find((tool) => tool.name === "safe_bash").inputSchema,
  bash: await call("safe_bash", { cmd: "pwd; echo $((6 * 7))" }),
  stored: await call("memory_store", { title: "the kettle", content: "descale it in May" }),
  found: await call("memory_search", { query: "kettle" }),
  wrong: await call("safe_bash", { cmd: "true", timeout: 900 }),
  refused: await call("safe_bash", { cmd: "rm -rf /" }),
  ended: await call("session_end", { outcome: "success" }),
  again: await call("safe_read", { path: "kept.txt" }),
  parallel: (await Promise.all([1, 2, 3, 4].map((n) => call("safe_bash", { cmd: `echo ${n}` })))).length,
};
const unknown = await call("no_such_tool", {}).catch((error) => ({ isError: true, content: String(error) }));
seen.unknown = unknown.isError === true;
await client.close();
console.log(JSON.stringify(seen));
