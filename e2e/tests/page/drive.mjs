// Drives a real browser against a real daemon. A scenario is a function that gets a context and throws where something is not
// as it must be. Every console message, policy violation and request that leaves the daemon fails the scenario.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { existsSync, readFileSync, rmSync } from "node:fs";

const env = process.env;
const require = createRequire(join(env.PAGE_MODULES, "x.js"));
const { chromium } = require("playwright-core");
export const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const BASE = env.PAGE_BASE;

/** Starts a browser with a profile of its own. */
async function launch(profile, options) {
  return chromium.launchPersistentContext(profile, {
    executablePath: env.PAGE_CHROMIUM,
    headless: false,
    args: [`--headless=${env.PAGE_HEADLESS ?? "shell"}`, "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--no-zygote"],
    env: { ...env, LD_LIBRARY_PATH: join(dirname(env.PAGE_CHROMIUM), "al2023/lib") },
    viewport: options.viewport ?? { width: 1440, height: 900 },
    hasTouch: options.touch ?? false,
    isMobile: options.touch ?? false,
    colorScheme: options.colorScheme ?? "dark",
    reducedMotion: "reduce",
    ignoreHTTPSErrors: options.ignoreHTTPSErrors ?? false,
    // A worker would answer before the routes of a scenario do.
    serviceWorkers: options.serviceWorkers ?? "block",
  });
}

/** For whoever works on the page: its files come from a folder, so that the daemon need not be built again. */
async function serveDist(context) {
  if (!env.PAGE_DIST) return;
  await context.route((url) => url.hostname === "127.0.0.1", async (route) => {
    const request = route.request();
    if (new URL(request.url()).pathname.startsWith("/docs")) return route.fallback();
    const file = request.resourceType() === "document" ? "/index.html" : new URL(request.url()).pathname;
    if (!existsSync(env.PAGE_DIST + file) || file === "/") return route.fallback();
    const type = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", png: "image/png", webmanifest: "application/manifest+json" }[file.split(".").pop()];
    const shell = await (await fetch(`${BASE}/`)).headers;
    const headers = { "content-type": type, "content-security-policy": shell.get("content-security-policy") };
    return route.fulfill({ body: readFileSync(env.PAGE_DIST + file), headers });
  });
}

/** How long a step may take on a machine that does other things, too. Below the limit at which the whole test is ended. */
const DEADLINE_MS = Number(env.PAGE_DEADLINE_MS ?? 90_000);

/** Runs a scenario and ends the process with its outcome. */
export async function scenario(run, options = {}) {
  const profile = join(env.PAGE_PROFILE, `p${process.pid}`);
  const context = await launch(profile, options);
  await serveDist(context);
  const others = [];
  context.setDefaultTimeout(DEADLINE_MS);
  const problems = [];
  const watch = (page) => {
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type()) && !(options.mayFail ?? isExpected)(message.text())) problems.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => problems.push(`error: ${error.stack ?? error}`));
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${BASE}/`) && !/^(data|blob|about|chrome-error):/.test(url) && !(options.mayRequest?.(url) ?? false)) problems.push(`request to ${url}`);
    });
  };
  context.on("page", watch);
  const page = context.pages()[0] ?? (await context.newPage());
  watch(page);
  let failure = null;
  try {
    /** Another browser, such as that of a phone. */
    const another = async (wanted) => {
      const other = await launch(`${profile}-${others.length}`, wanted);
      other.setDefaultTimeout(DEADLINE_MS);
      await serveDist(other);
      other.on("page", watch);
      other.pages().forEach(watch);
      others.push(other);
      return other.pages()[0] ?? (await other.newPage());
    };
    await run({ context, page, assert, problems, another });
    assert.deepEqual(problems, [], "the page had problems");
  } catch (error) {
    failure = error;
    await page.screenshot({ path: join(env.PAGE_PROFILE, "failed.png") }).catch(() => {});
    console.log(`address ${page.url()}`);
    console.log(await page.locator("body").innerText().catch(() => ""));
  }
  for (const one of [context, ...others]) await one.close().catch(() => {});
  for (const at of ["", ...others.map((_, at) => `-${at}`)]) rmSync(profile + at, { recursive: true, force: true });
  if (failure) {
    console.log(failure.stack ?? String(failure));
    process.exit(1);
  }
  console.log("held");
  process.exit(0);
}

/** The browser itself tells of every refused call; what the daemon refuses is looked at by the scenario. */
function isExpected(text) {
  return text.startsWith("Failed to load resource") || text.includes("net::ERR_") || text.includes("Service Worker registration blocked");
}

/** Runs the command line of obey and returns what it printed. */
export async function obey(...args) {
  const { execFile } = await import("node:child_process");
  return new Promise((resolve, reject) => {
    execFile(env.PAGE_OBEY, args, { env, maxBuffer: 1 << 26 }, (error, out, err) => (error ? reject(new Error(`obey ${args.join(" ")}: ${err}${out}`)) : resolve(out)));
  });
}

/** Opens the page with a key. */
export async function signIn(page, path = "/") {
  const { url } = JSON.parse(await obey("web", "--json"));
  assert.ok(url.startsWith(`${BASE}/#k=`), url);
  await page.goto(url);
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
  await page.waitForFunction(() => sessionStorage.getItem("obey-key") !== null);
  if (path !== "/") {
    await page.goto(BASE + path);
    await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
  }
}

/** Makes a session of the scripted agent and returns its id. */
export async function session(name, script = []) {
  const message = script.length > 0 ? ["--message", `go SCRIPT: ${JSON.stringify(script)}`] : [];
  const out = await obey("session", "create", "-c", "project", "--provider", "scripted", "--name", name, ...message);
  return /^Session: (\S+)/m.exec(out)[1];
}

export async function events(id) {
  const out = await obey("session", "log", id, "--json");
  return out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

/** Waits until something is true, without sleeping blindly. */
export async function until(what, look) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Checks the accessibility of what is on the screen. */
export async function accessible(page, what) {
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join("; ")}`);
  assert.deepEqual(told, [], `axe on ${what}`);
}
