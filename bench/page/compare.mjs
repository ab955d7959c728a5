// The page of obey beside that of opencode: the same browser, the same model, the same pieces of text, one after the other. Measures
// what the reader feels: frames that were dropped, when the last piece is on the screen, how much memory the tab has. Run by hand; the
// README beside it says how. Prints a row of a table for each.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve as absolute } from "node:path";

const env = process.env;
const require = createRequire(absolute(env.PAGE_MODULES, "x.js"));
const { chromium } = require("playwright-core");
const CHUNKS = Number(env.CHUNKS ?? 10_000);
const RATE = Number(env.RATE ?? 1_000);
const CHUNK = 12;
const PART = "Some *text* with `code`, words and a list:\n\n- one\n- two\n\n```rust\nfn main() { let x = 1; }\n```\n\nA paragraph that goes on for a while, so that lines wrap.\n\n";
const TEXT = PART.repeat(Math.ceil((CHUNKS * CHUNK) / PART.length)).slice(0, CHUNKS * CHUNK);
const END = "THE-END";
const root = mkdtempSync(join(tmpdir(), "page-bench-"));
const started = [];

/** A model of the OpenAI API that streams the text, so many pieces a second. Returns its address and when it sent the last piece. */
async function model() {
  const self = { base: "", lastSent: 0 };
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      if (!request.url.endsWith("/chat/completions")) return response.writeHead(404, { "content-type": "application/json" }).end('{"error":{"message":"only chat"}}');
      const isWanted = JSON.stringify(JSON.parse(body).messages?.at(-1) ?? "").includes("STREAM");
      response.writeHead(200, { "content-type": "text/event-stream" });
      const send = (choices, usage) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices, ...(usage ? { usage } : {}) })}\n\n`);
      const say = (content) => send([{ index: 0, delta: { content }, finish_reason: null }]);
      const end = () => {
        send([{ index: 0, delta: {}, finish_reason: "stop" }]);
        send([], { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 });
        response.end("data: [DONE]\n\n");
      };
      send([{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }]);
      if (!isWanted) {
        say("A title");
        return end();
      }
      let at = 0;
      const began = performance.now();
      const timer = setInterval(() => {
        const due = Math.min(CHUNKS, Math.floor(((performance.now() - began) / 1_000) * RATE));
        for (; at < due; at += 1) say(TEXT.slice(at * CHUNK, (at + 1) * CHUNK));
        if (at < CHUNKS) return;
        clearInterval(timer);
        say(`\n\n${END}`);
        self.lastSent = Date.now();
        end();
      }, 5);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  self.base = `http://127.0.0.1:${server.address().port}/v1`;
  self.close = () => server.close();
  return self;
}

/** Starts a program with a home of its own and waits for its address. */
async function start(name, program, args, more = {}) {
  const home = join(root, name);
  for (const folder of ["home", "data", "config", "run", "project"]) mkdirSync(join(home, folder), { recursive: true, mode: 0o700 });
  const own = { PATH: env.PATH, HOME: join(home, "home"), XDG_DATA_HOME: join(home, "data"), XDG_STATE_HOME: join(home, "data"), XDG_CACHE_HOME: join(home, "data"), XDG_CONFIG_HOME: join(home, "config"), XDG_RUNTIME_DIR: join(home, "run"), OBEY_LISTEN: "none", ...more };
  const child = spawn(absolute(program), args, { env: own, cwd: join(home, "project"), stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (said = (said + part).slice(-2_000)));
  child.on("exit", (code) => code && console.error(`${name} ended with ${code}: ${said}`));
  return { home, own, project: join(home, "project"), child };
}

async function until(what, look) {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    const found = await Promise.resolve(look()).catch(() => null);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`waited in vain for ${what}`);
}

async function post(url, body, headers = {}, patience = 240_000) {
  const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body), signal: AbortSignal.timeout(patience) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

function freePort() {
  return new Promise((resolve) => {
    const server = http.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Watches a page while the text streams in, and prints a row. */
async function measure(name, page, from, send) {
  await page.evaluate(() => {
    window.gaps = [];
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.longest = Math.max(window.longest, one.duration)))).observe({ entryTypes: ["longtask"] });
    let last = performance.now();
    const step = (now) => {
      window.gaps.push(now - last);
      last = now;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  await send();
  await page.waitForFunction((end) => document.body.textContent.includes(end), END, { timeout: 240_000, polling: 100 });
  const seenAt = Date.now();
  const { gaps, longest } = await page.evaluate(() => ({ gaps: window.gaps, longest: window.longest }));
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  const total = gaps.reduce((sum, gap) => sum + gap, 0);
  const dropped = Math.max(0, Math.round(total / 16.667) - gaps.length);
  const sorted = gaps.toSorted((one, other) => one - other);
  console.log(`| ${name} | ${dropped} of ${Math.round(total / 16.667)} | ${sorted[Math.floor(sorted.length * 0.95)].toFixed(0)} ms | ${longest.toFixed(0)} ms | ${seenAt - from.lastSent} ms | ${(usedSize / 1e6).toFixed(1)} MB | ${nodes} |`);
}

async function obey(browser, from) {
  const port = await freePort();
  const daemon = await start("obey", env.OBEY, ["serve", "--listen", `127.0.0.1:${port}`], { OPENAI_API_KEY: "x" });
  const base = `http://127.0.0.1:${port}`;
  const run = (...args) => new Promise((resolve, reject) => {
    const child = spawn(absolute(env.OBEY), args, { env: daemon.own, cwd: daemon.project });
    let out = "";
    child.stdout.on("data", (part) => (out += part));
    child.on("exit", (code) => (code === 0 ? resolve(out) : reject(new Error(`obey ${args.join(" ")}: ${code} ${out}`))));
  });
  await until("the daemon", async () => (await fetch(`${base}/health`)).ok);
  await run("campaign", "add", daemon.project, "--name", "bench");
  const page = await browser.newPage({ serviceWorkers: "block" });
  await page.goto(JSON.parse(await run("web", "--json")).url);
  await page.waitForFunction(() => sessionStorage.getItem("obey-key") !== null);
  const authorization = `Bearer ${await page.evaluate(() => sessionStorage.getItem("obey-key"))}`;
  const request = { campaign_id: "bench", provider: "SESSION_PROVIDER_OPENAI_API", model: "m", agent_name: "bench", provider_config: { base_url: from.base, wire_api: "chat" } };
  const { session } = await post(`${base}/obey.local.v1.LocalDaemonService/CreateSession`, request, { authorization });
  await page.goto(`${base}/s/${session.id}`);
  await page.getByRole("status", { name: "Connection" }).getByText("live").waitFor();
  await measure("obey", page, from, () => post(`${base}/obey.v1.TurnService/Prompt`, { session_id: session.id, text: "STREAM" }, { authorization }));
  await page.close();
  await run("stop");
}

async function opencode(browser, from) {
  const port = await freePort();
  const config = join(root, "opencode/config/opencode");
  mkdirSync(config, { recursive: true });
  const provider = { local: { npm: "@ai-sdk/openai-compatible", name: "local", options: { baseURL: from.base, apiKey: "x" }, models: { m: { name: "m" } } } };
  writeFileSync(join(config, "opencode.json"), JSON.stringify({ model: "local/m", small_model: "local/m", autoupdate: false, share: "disabled", provider }));
  const peer = await start("opencode", env.OPENCODE, ["serve", "--port", String(port), "--hostname", "127.0.0.1"], {
    // Nothing of the network is needed but the package of the provider.
    OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
  });
  const base = `http://127.0.0.1:${port}`;
  const session = await until("opencode", () => post(`${base}/session`, { title: "bench" }, {}, 5_000));
  // The first message makes it load what it needs.
  await post(`${base}/session/${session.id}/message`, { model: { providerID: "local", modelID: "m" }, parts: [{ type: "text", text: "hello" }] });
  const page = await browser.newPage({ serviceWorkers: "block" });
  await page.goto(`${base}/${Buffer.from(peer.project).toString("base64url")}/session/${session.id}`);
  await page.getByText("A title").first().waitFor();
  if (env.PICTURE) await page.screenshot({ path: env.PICTURE });
  await measure("opencode", page, from, async () => {
    void post(`${base}/session/${session.id}/message`, { model: { providerID: "local", modelID: "m" }, parts: [{ type: "text", text: "STREAM" }] }).catch(() => {});
  });
  await page.close();
}

const browser = await chromium.launch({
  executablePath: absolute(env.PAGE_CHROMIUM),
  headless: false,
  args: ["--headless=shell", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--no-zygote"],
  env: { ...env, LD_LIBRARY_PATH: join(dirname(absolute(env.PAGE_CHROMIUM)), "al2023/lib") },
});
let failure = null;
try {
  console.log(`${CHUNKS} pieces of ${CHUNK} letters, ${RATE} a second`);
  console.log("| page | frames dropped | p95 of a frame | longest task | last piece on the screen after | heap of the tab | elements |");
  console.log("|---|---|---|---|---|---|---|");
  for (const run of [obey, ...(env.OPENCODE ? [opencode] : [])]) {
    const from = await model();
    await run(browser, from);
    from.close();
  }
} catch (error) {
  failure = error;
}
await browser.close().catch(() => {});
for (const child of started) child.kill();
rmSync(root, { recursive: true, force: true });
if (failure) throw failure;
process.exit(0);
