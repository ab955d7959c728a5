// The screens beside the session: queue, search, usage, export, audit, memory, settings. Each shows what the command line says, and
// what is done on it reaches the daemon once.
import { readFileSync } from "node:fs";
import { BASE, accessible, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const ask = { tool: "Bash", input: { command: "make release" }, ask: true, result: "ran" };

await scenario(async ({ page, assert }) => {
  const id = await session("worker", [{ text: "A rare word: xylophone." }, { usage: { input_tokens: 1200, output_tokens: 34, cost_micro_usd: 1_500_000 } }, ask]);
  await session("silent", [{ text: "nothing reported here" }]);
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  const message = page.getByRole("textbox", { name: "Message" });

  // The queue: three prompts wait, one is changed, one moved, one removed; another page and the command line see the same; it
  // is sent in its order, each prompt once.
  await page.getByRole("button", { name: "Allow once" }).waitFor();
  for (const words of ["one", "two", "three"]) {
    await message.fill(`${words} SCRIPT: [{"text":"did ${words}"}]`);
    await message.press("Enter");
    await page.getByRole("list", { name: "Queue" }).getByText(`${words} SCRIPT`).waitFor();
  }
  await page.getByRole("button", { name: "Edit waiting prompt 3" }).click();
  await page.getByRole("textbox", { name: "Waiting prompt 3" }).fill('third SCRIPT: [{"text":"did the third"}]');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("list", { name: "Queue" }).getByText("third SCRIPT").waitFor();
  await page.getByRole("button", { name: "Move waiting prompt 3 up" }).click();
  await until("the order", async () => /one.*third.*two/s.test(await page.getByRole("list", { name: "Queue" }).innerText()));
  await page.getByRole("button", { name: "Remove waiting prompt 3" }).click();
  await until("two wait", async () => (await page.getByRole("list", { name: "Queue" }).getByRole("listitem").count()) === 2);
  await page.reload();
  assert.match(await page.getByRole("list", { name: "Queue" }).innerText(), /one[^]*third/);
  const listed = await obey("queue", "list", id);
  assert.match(listed, /one[^]*third/);
  assert.ok(!listed.includes("two SCRIPT"), listed);
  await accessible(page, "the queue");
  await page.getByRole("button", { name: "Allow for this session" }).click();
  await log.getByText("did the third").first().waitFor();
  const prompts = (await events(id)).filter((event) => event.type === "turn_started").map((event) => event.prompt.split(" ")[0]);
  assert.deepEqual(prompts, ["go", "one", "third"]);

  // What was allowed is listed, and taken back.
  const grants = page.getByRole("list", { name: "Grants" });
  await grants.getByText("make release").waitFor();
  await grants.getByRole("button", { name: /^Revoke/ }).click();
  await grants.waitFor({ state: "detached" });
  assert.ok(!(await obey("grants", "list")).includes("make release"));

  // A name is changed here and everywhere.
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("textbox", { name: "New name" }).fill("hard-worker");
  await page.getByRole("button", { name: "Save name" }).click();
  await page.getByRole("heading", { level: 1, name: "hard-worker" }).waitFor();
  await page.getByRole("list", { name: "Inbox" }).getByText("hard-worker").waitFor();

  // What was sent before comes back with the arrow key.
  await message.fill("a beginning");
  await message.press("Home");
  await message.press("ArrowUp");
  await until("the last prompt", async () => (await message.inputValue()).startsWith("third"));
  await message.press("ArrowUp");
  await until("the one before", async () => (await message.inputValue()).startsWith("one"));
  await message.fill("");

  // Export: the whole conversation, as the command line gives it.
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export as Markdown" }).click()]);
  const exported = readFileSync(await download.path(), "utf8");
  for (const words of ["xylophone", "make release", "did the third"]) assert.ok(exported.includes(words), exported);

  // On paper: the whole session. And a link to where one is.
  await page.evaluate(() => (window.print = () => (window.printed = document.querySelector("[role=log]").innerText)));
  const act = async (name) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Command or session" }).fill(name);
    await page.keyboard.press("Enter");
  };
  await act("Print the whole");
  const printed = await until("the paper", () => page.evaluate(() => window.printed));
  for (const words of ["xylophone", "make release", "did the third"]) assert.ok(printed.includes(words), printed);
  await act("Copy link");
  await page.getByRole("status").filter({ hasText: /clipboard|\/s\/sess_.*\?at=\d+/ }).waitFor();

  // Search: a hit opens the session at its event.
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("/");
  await page.getByRole("searchbox", { name: "Words in all sessions" }).fill("xylophone");
  await page.keyboard.press("Enter");
  const hits = page.getByRole("list", { name: "Hits" });
  await hits.getByRole("listitem").filter({ hasText: "answer" }).getByText("xylophone", { exact: true }).first().waitFor();
  assert.ok(page.url().endsWith("/search?q=xylophone"));
  await accessible(page, "search");
  await hits.getByRole("listitem").filter({ hasText: "answer" }).getByRole("link").first().click();
  await log.locator(".marked").getByText("xylophone").waitFor();
  await page.goto(`${BASE}/search?q=nobodysaidthis`);
  await page.getByText("Nothing was found.").waitFor();

  // Usage: the sums are those of the journal; what was not reported is not 0.
  await page.goto(`${BASE}/usage?range=day&by=session`);
  const row = page.getByRole("row").filter({ hasText: "hard-worker" });
  await row.getByRole("cell", { name: "1,200" }).waitFor();
  await row.getByRole("cell", { name: "34", exact: true }).waitFor();
  await row.getByRole("cell", { name: "$1.50" }).waitFor();
  assert.equal(await page.getByRole("row").filter({ hasText: "silent" }).count(), 0);
  await page.getByRole("combobox", { name: "By" }).selectOption("provider");
  await page.getByRole("row").filter({ hasText: "scripted" }).getByRole("cell", { name: "1,200" }).waitFor();
  assert.ok(page.url().endsWith("/usage?range=day&by=provider"));
  await accessible(page, "usage");

  // Audit: newest first, filtered, verified.
  await page.goto(`${BASE}/audit`);
  await page.getByRole("cell", { name: "obey.v1.GrantService/RevokeGrant" }).first().waitFor();
  await page.getByRole("searchbox", { name: "Filter" }).fill("rename");
  await until("the filter", async () => (await page.getByRole("row").count()) >= 2 && (await page.getByRole("cell", { name: "obey.v1.GrantService/RevokeGrant" }).count()) === 0);
  await page.getByRole("cell", { name: /^web\/chrome-linux/ }).first().waitFor();
  // Followed: what happens elsewhere comes by itself.
  await page.getByRole("checkbox", { name: "Follow" }).check();
  const renames = page.getByRole("cell", { name: "obey.v1.SessionService/Rename" });
  const before = await renames.count();
  await obey("rename", id, "another-worker");
  await obey("rename", id, "hard-worker");
  await until("the followed entry", async () => (await renames.count()) > before);
  await page.getByRole("checkbox", { name: "Follow" }).uncheck();
  await page.getByRole("button", { name: "Verify" }).click();
  const verified = page.getByRole("status").filter({ hasText: /^Intact: [\d,]+ entries · head [0-9a-f]{16}/ });
  await verified.waitFor();
  await accessible(page, "the audit");

  // Memory: found by words, opened, judged.
  const key = await page.evaluate(() => sessionStorage.getItem("obey-key"));
  const stored = await page.evaluate(async ({ key, session_id }) => {
    const body = { title: "Test one crate", description: "When the tests are slow", content: "Run them for one crate only. <b>not bold</b>", outcome: "success", tags: ["tests"], session_id };
    return (await fetch("/contextd.v1.MemoryService/Store", { method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${key}` }, body: JSON.stringify(body) })).status;
  }, { key, session_id: id });
  assert.equal(stored, 200);
  await page.goto(`${BASE}/memory`);
  await page.getByRole("searchbox", { name: "Words" }).fill("slow tests");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("list", { name: "Memories" }).getByRole("button", { name: "Test one crate" }).click();
  const memory = page.getByRole("article", { name: "Test one crate" });
  await memory.getByText("Run them for one crate only. <b>not bold</b>").waitFor();
  await memory.getByText("confidence 80 %").waitFor();
  await memory.getByRole("button", { name: "It helped" }).click();
  await page.getByRole("status").filter({ hasText: /The confidence is (8[1-9]|9\d|100) % now/ }).waitFor();
  await accessible(page, "memory");

  // Settings: the theme is kept; devices are listed, this page among them.
  await page.goto(`${BASE}/settings`);
  await page.getByRole("radio", { name: "light" }).check();
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  assert.ok(await page.getByRole("radio", { name: "light" }).isChecked());
  await page.getByRole("list", { name: "Devices" }).getByRole("listitem").filter({ hasText: "this page" }).waitFor();
  await accessible(page, "settings");

  // Sessions that have ended are listed when they are asked for.
  await obey("session", "stop", id);
  await page.getByRole("button", { name: /Ended/ }).click();
  await page.getByRole("list", { name: "Inbox" }).getByRole("listitem").filter({ hasText: "hard-worker" }).filter({ hasText: "ended" }).waitFor();
});
