// The list with hundreds of sessions in every state: groups and order, words beside every glyph, a counted row for the idle, a
// filter that is in the address; places change at most once a second and not under the pointer; what changes is seen at once.
import { obey, scenario, until } from "./drive.mjs";
import { proxy, signInAt } from "./proxy.mjs";

const STATES = ["NEEDS_YOU", "FAILED", "WORKING", "QUIET", "DONE", "IDLE"];
const WORDS = ["needs you", "failed", "working", "quiet", "done", "idle"];

function overview(at, state) {
  const name = `s${String(at).padStart(3, "0")}`;
  return {
    session_id: `sess_${name}`, name, campaign: at % 2 === 0 ? "shop" : "docs", campaign_id: "camp_1", folder: "/tmp/x", branch: "main", provider: at % 3 === 0 ? "codex" : "claude-code",
    model: "opus", mode: "supervised", state: `SESSION_STATE_${state}`, cause: "", reason: `reason of ${name}`, since: new Date(Date.UTC(2026, 0, 1) + (500 - at) * 60_000).toISOString(),
    requests: state === "NEEDS_YOU" ? [{ request_id: `r${at}`, kind: "permission", tool: "Bash", text: "ls", asked_at: null }] : [], last_line: "", tokens: null, cost_micro_usd: null,
    budget: at === 2 ? { max_tokens: 100, tokens_left: 10 } : null, todos_done: 0, todos_all: 0, machine: at % 50 === 7 ? "laptop" : "here", status: "RUNNING", last_seq: 1,
  };
}

await scenario(
  async ({ page, assert }) => {
    const sessions = Array.from({ length: 500 }, (_, at) => overview(at, STATES[at % 6]));
    let stream = null;
    let revision = 1;
    const send = (event, data) => stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    const way = await proxy({
      live: (request, response) => {
        request.resume();
        response.writeHead(200, { "content-type": "text/event-stream" });
        stream = response;
        send("hello", { version: "x", build: "x", sessions: {} });
        send("overview", { revision, snapshot: true, sessions, removed: [], machine: "here" });
      },
    });
    await page.addInitScript(() => {
      new MutationObserver(() => {
        if (window.paintedAt === undefined && document.querySelectorAll(".item").length > 300) requestAnimationFrame(() => (window.paintedAt ??= performance.now()));
      }).observe(document, { childList: true, subtree: true });
    });
    await signInAt(page, way.base, obey);
    const list = page.getByRole("list", { name: "Inbox" });
    await page.waitForFunction(() => window.paintedAt !== undefined);
    console.log(`500 sessions are painted ${Math.round(await page.evaluate(() => window.paintedAt))} ms after the navigation began`);
    await page.waitForFunction(() => document.title === "(84) obey");
    // What is out of sight is not laid out, but is there for those who search or listen.
    const items = await list.getByRole("listitem").allTextContents();
    // Every group but the idle, in their order, the longest in it first.
    const expected = STATES.slice(0, 5).flatMap((state, group) => sessions.filter((one) => one.state === `SESSION_STATE_${state}`).toSorted((one, other) => one.since.localeCompare(other.since)).map((one) => `${one.name} ${WORDS[group]}`));
    assert.deepEqual(items.map((text) => `${/s\d{3}/.exec(text)[0]} ${WORDS.find((word) => text.includes(`, ${word},`))}`), expected);
    for (const text of items) assert.match(text, /reason of s\d{3}/);
    assert.ok(items.find((text) => text.includes("s002")).includes("90 % of its budget"));
    // More than one machine: each item names its own.
    assert.ok(items.find((text) => text.includes("s057")).includes("laptop · docs"));
    assert.ok(items.find((text) => text.includes("s002")).includes("here · shop"));
    const fps = await page.locator(".sessions").evaluate((box) => new Promise((resolve) => {
      const began = performance.now();
      let frames = 0;
      const step = () => {
        box.scrollTop += 120;
        frames += 1;
        if (performance.now() - began < 1_000) requestAnimationFrame(step);
        else resolve(Math.round((frames * 1_000) / (performance.now() - began)));
      };
      requestAnimationFrame(step);
    }));
    console.log(`the list of 500 scrolls at ${fps} frames a second`);
    await page.getByRole("button", { name: "Idle · 83" }).click();
    await until("the idle", async () => (await list.getByRole("listitem").count()) === 500);

    // A filter takes words of campaign, provider, state, and is in the address.
    await page.getByRole("searchbox", { name: "Filter sessions" }).fill("shop codex needs");
    await until("the filtered", async () => (await list.getByRole("listitem").count()) === 84);
    assert.ok(new URL(page.url()).searchParams.get("filter") === "shop codex needs");
    await page.reload();
    assert.equal(await page.getByRole("searchbox", { name: "Filter sessions" }).inputValue(), "shop codex needs");
    await page.getByRole("searchbox", { name: "Filter sessions" }).fill("");

    // Under the pointer nothing moves, and its words change at once; it moves when the pointer has gone.
    const third = () => list.getByRole("listitem").nth(2).innerText();
    const before = /s\d{3}/.exec(await third())[0];
    await list.getByRole("listitem").nth(2).hover();
    const at = Number(before.slice(1));
    revision += 1;
    sessions[at] = overview(at, "DONE");
    send("overview", { revision, snapshot: false, sessions: [sessions[at]], removed: [], machine: "here" });
    await list.getByRole("listitem").nth(2).filter({ hasText: `${before} , done,` }).or(list.getByRole("listitem").nth(2).filter({ hasText: ", done," })).waitFor();
    assert.ok((await third()).includes(before), "it moved under the pointer");
    await page.mouse.move(900, 400);
    await until("it has moved", async () => !(await third()).includes(before));
    await page.waitForFunction(() => document.title === "(83) obey");
    assert.ok((await page.locator("link[rel=icon]").getAttribute("href")).includes("needs"));
    way.close();
  },
  { mayRequest: (url) => url.startsWith("http://127.0.0.1:") },
);
