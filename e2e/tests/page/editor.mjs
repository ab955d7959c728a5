// Two pages, a terminal and an editor on one session show the same: what was said before the editor came, what one of them says
// while all look, and what the agent does about it. The editor speaks the Agent Client Protocol with `obey acp`.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { BASE, obey, scenario, session, signIn, until } from "./drive.mjs";

/** Starts `obey acp` and collects what an editor shows of a session: kind and words, in order. */
async function editor(id) {
  const child = spawn(process.env.PAGE_OBEY, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
  const rows = [];
  const answers = new Map();
  /** Words of one kind that follow each other are one row, as they are in the transcript. */
  const say = (kind, text) => {
    const last = rows.at(-1);
    if (last?.kind === kind && kind !== "call") last.text += text;
    else rows.push({ kind, text });
  };
  const shown = {
    user_message_chunk: (update) => say("prompt", update.content.text),
    agent_message_chunk: (update) => say("text", update.content.text),
    tool_call: (update) => rows.push({ kind: "call", id: update.toolCallId, text: "", state: "" }),
  };
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    if (message.method === "session/update" && message.params.sessionId === id) {
      const { update } = message.params;
      shown[update.sessionUpdate]?.(update);
      const call = rows.find((row) => row.kind === "call" && row.id === update.toolCallId);
      if (call && update.title) call.text = update.title;
      if (call && update.status) call.state = update.status;
    } else if (message.id !== undefined && message.method === undefined) answers.get(message.id)?.(message);
  });
  let number = 0;
  const ask = (method, params) => new Promise((resolve) => {
    number += 1;
    answers.set(number, resolve);
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: number, method, params })}\n`);
  });
  await ask("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const loaded = await ask("session/load", { sessionId: id, cwd: process.cwd(), mcpServers: [] });
  if (loaded.error) throw new Error(JSON.stringify(loaded.error));
  return { rows, ask, end: () => child.stdin.end() };
}

/** The same of a page: prompts, texts, and every call of the groups, which are opened. */
async function pageRows(page) {
  const groups = page.getByRole("log").locator(".row-calls > details");
  for (const group of await groups.all()) await group.evaluate((details) => (details.open = true));
  await until("the calls of every group", async () => (await groups.count()) === (await groups.filter({ has: page.locator(".call-head") }).count()));
  return page.getByRole("log").evaluate((log) => {
    const rows = [];
    for (const row of log.querySelectorAll(".row")) {
      const say = (kind, text) => rows.push({ kind, text });
      if (row.matches(".row-prompt")) say("prompt", row.querySelector(".bubble").textContent);
      if (row.matches(".row-text")) say("text", row.innerText);
      row.querySelectorAll(".call-head").forEach((head) => say("call", head.querySelector("code").textContent));
    }
    return rows;
  });
}

/** What both have in common: an editor's calls have another title, so that each is known by the command in it. */
const plain = (rows) => rows.map(({ kind, text }) => `${kind} ${kind === "call" ? /echo \w+/.exec(text)?.[0] : text.trim()}`);

await scenario(async ({ page, context, assert }) => {
  const id = await session("shared", [{ text: "I was here before you." }, { tool: "Bash", input: { command: "echo before" }, result: "before" }, { text: "That is all." }]);
  await signIn(page, `/s/${id}`);
  const other = await context.newPage();
  await signIn(other, `/s/${id}`);
  await page.getByRole("log").getByText("Turn completed").waitFor();
  const zed = await editor(id);

  // The page says something, and the editor, which did not ask, shows it and what comes of it.
  await page.getByRole("textbox", { name: "Message" }).fill(`From the page SCRIPT: ${JSON.stringify([{ text: "Heard the page.", chunks: 5 }, { tool: "Bash", input: { command: "echo page" }, result: "page" }, { text: "Done for the page." }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await until("the editor has it", () => zed.rows.some((row) => row.text.includes("Done for the page.")));
  for (const one of [page, other]) await one.getByRole("log").getByText("Turn completed").nth(1).waitFor();
  // The editor says something, and both pages show it.
  const own = `From the editor SCRIPT: ${JSON.stringify([{ text: "Heard the editor.", chunks: 5 }, { tool: "Bash", input: { command: "echo editor" }, result: "editor" }, { text: "Done for the editor." }])}`;
  zed.rows.push({ kind: "prompt", text: own });
  const ended = await zed.ask("session/prompt", { sessionId: id, prompt: [{ type: "text", text: own }] });
  assert.equal(ended.result?.stopReason, "end_turn", JSON.stringify(ended));
  for (const one of [page, other]) await one.getByRole("log").getByText("Turn completed").nth(2).waitFor();

  const rows = plain(await pageRows(page));
  assert.equal(rows.filter((row) => row.startsWith("prompt")).length, 3, rows.join("\n"));
  assert.deepEqual(rows.filter((row) => row.startsWith("call")), ["call echo before", "call echo page", "call echo editor"]);
  assert.deepEqual(plain(await pageRows(other)), rows, "two pages");
  assert.deepEqual(plain(zed.rows), rows, "the page and the editor");
  assert.ok(zed.rows.filter((row) => row.kind === "call").every((row) => row.state === "completed"), JSON.stringify(zed.rows));
  // The terminal, whose rows are those of the page's fold by their goldens, prints the same words.
  const printed = await obey("logs", id);
  let from = 0;
  for (const row of rows) {
    const words = row.replace(/^(prompt|text|call) /, "").split("SCRIPT:")[0].trim();
    const at = printed.indexOf(words, from);
    assert.ok(at >= 0, `the terminal lacks ${words} after ${from}:\n${printed}`);
    from = at;
  }
  zed.end();
  await page.goto(BASE);
});
