// A session is opened by its address, a prompt is typed and sent, the turn is shown as markdown, calls, plan and end; the
// words in the journal are those on the screen; the page's name is the author; a long transcript follows its end and stays
// where the reader is.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(async ({ page, context, assert }) => {
  const id = await session("writer");
  await signIn(page, `/s/${id}`);
  assert.equal(new URL(page.url()).hash, "", "the code is gone from the address");
  assert.deepEqual(await context.cookies(), [], "no cookie");
  await page.getByRole("heading", { level: 1, name: "writer" }).waitFor();
  const log = page.getByRole("log");
  const message = page.getByRole("textbox", { name: "Message" });
  const script = [
    { thinking: "hm, let me see" },
    { todo: ["look", "write"] },
    { text: "# Title\n\nSome **bold** text with `code`.\n\n- one\n- two\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end.", chunks: 40 },
    { tool: "Bash", input: { command: "cargo test -p cart" }, result: "ok \u001b[32mgreen\u001b[0m" },
    { tool: "Bash", input: { command: "false" }, result: "it broke", ok: false },
    { usage: { input_tokens: 1000, output_tokens: 234, cost_micro_usd: 1840000 } },
    { text: "finished" },
  ];
  await message.fill(`Fix it. SCRIPT: ${JSON.stringify(script)}`);
  await message.press("Enter");
  await log.getByText("Turn completed").waitFor();
  await log.getByText("finished").first().waitFor();
  assert.equal(await message.inputValue(), "", "what was sent is gone from the field");
  await log.locator("strong", { hasText: "bold" }).first().waitFor();
  await log.locator("li", { hasText: "two" }).first().waitFor();
  await log.locator("table td", { hasText: "2" }).first().waitFor();
  await log.locator("pre code .hljs-keyword", { hasText: "fn" }).first().waitFor();
  await log.getByText("2 calls: ran 2 commands").waitFor();
  await log.getByText("✕ Bash: false").first().waitFor();
  await log.getByText("2 calls: ran 2 commands").click();
  await log.getByText("it broke").last().waitFor();
  await page.getByText("To-dos · 0 of 2").waitFor();
  await page.getByText("1.2 k tokens · $1.84").first().waitFor();
  const all = await events(id);
  const started = all.find((event) => event.type === "turn_started");
  assert.match(started.by, /^web\/chrome-linux/);
  // The whole text is what the journal has.
  const words = all.filter((event) => event.type === "text_delta").map((event) => event.text).join("");
  assert.ok(words.includes("The end."));

  // A long transcript: it follows; one notch up and it stays; a button goes back to the end.
  await message.fill(`more SCRIPT: ${JSON.stringify([{ flood: { lines: 3000, text: "a line of many\n\n" } }, { text: "the very last words" }])}`);
  await message.press("Enter");
  await log.getByText("the very last words").last().waitFor();
  const atEnd = () => log.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40);
  await until("the end is in view", atEnd);
  for (let turn = 0; turn < 12; turn += 1) {
    await message.fill(`again ${turn} SCRIPT: ${JSON.stringify([{ text: `answer ${turn}\n\n`.repeat(30) }])}`);
    await message.press("Enter");
    await until(`turn ${turn}`, async () => (await events(id)).filter((event) => event.type === "turn_ended").length === turn + 3);
  }
  // What is typed and sent while a message is on its way is the next message.
  let answered;
  const held = new Promise((resolve) => { answered = resolve; });
  await page.route("**/obey.v1.TurnService/Prompt", async (route) => {
    const response = await route.fetch();
    await held;
    await route.fulfill({ response });
  }, { times: 1 });
  const ended = async () => (await events(id)).filter((event) => event.type === "turn_ended").length;
  await message.fill(`first of two SCRIPT: ${JSON.stringify([{ text: "one" }])}`);
  await message.press("Enter");
  await until("the first of two", async () => (await ended()) === 15);
  await message.fill(`second of two SCRIPT: ${JSON.stringify([{ text: "two" }])}`);
  await message.press("Enter");
  answered();
  await until("the second of two", async () => (await ended()) === 16);
  await until("the field is empty", async () => (await message.inputValue()) === "");
  await until("the end is in view again", atEnd);
  await log.hover();
  await page.mouse.wheel(0, -1200);
  await until("it has left the end", async () => !(await atEnd()));
  await page.getByRole("button", { name: /To the end|new/ }).waitFor();
  const firstVisible = () => log.evaluate((box) => {
    const top = box.getBoundingClientRect().top;
    for (const row of box.querySelectorAll(".row")) {
      const rect = row.getBoundingClientRect();
      if (rect.bottom > top + 5) return { seq: row.dataset.seq, y: rect.top - top };
    }
    return null;
  });
  // The browser scrolls on after a turn of the wheel.
  let place = null;
  await until("the scrolling has come to rest", async () => {
    const last = place;
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    place = JSON.stringify(await firstVisible());
    return place === last;
  });
  const before = await firstVisible();
  await obey("session", "send", id, `away SCRIPT: ${JSON.stringify([{ text: "while you read\n\n".repeat(50), chunks: 50 }])}`);
  await page.getByRole("button", { name: /new/ }).waitFor();
  const after = await firstVisible();
  assert.equal(after.seq, before.seq, "the row under the reader's eyes stays");
  assert.ok(Math.abs(after.y - before.y) <= 1, `it moved by ${after.y - before.y}`);
  await page.getByRole("button", { name: /new/ }).click();
  await until("the end is in view after the button", atEnd);

  // An address of an event opens there; an unknown session says what happened.
  await page.goto(`${BASE}/s/${id}?at=${started.seq}`);
  await log.getByText("Fix it.").first().waitFor();
  await page.goto(`${BASE}/s/sess_00000000000000000000000000`);
  await page.getByRole("alert").filter({ hasText: "sess_0000" }).waitFor();
});
