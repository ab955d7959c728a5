// A request opened by an agent is in the list, in the title and as a card on every open page; each answer reaches the agent
// exactly once, by mouse and by key; who was second sees who was first; the daemon's death loses no card.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const ask = (command) => [{ tool: "Bash", input: { command }, ask: true, result: "ran" }, { text: "then" }];

await scenario(async ({ page, context, assert }) => {
  await signIn(page);
  const other = await context.newPage();
  await signIn(other);
  const id = await session("fixer", ask("git push --force\u202e origin"));
  for (const one of [page, other]) {
    await one.getByRole("list", { name: "Inbox" }).getByRole("listitem").filter({ hasText: "fixer" }).filter({ hasText: "needs you" }).waitFor();
    await one.waitForFunction(() => document.title.startsWith("(1) "));
    await one.getByRole("button", { name: "Allow once", exact: true }).waitFor();
    for (const name of ["Allow for this session", "Deny", "Deny and stop"]) await one.getByRole("button", { name, exact: true }).waitFor();
  }
  // Control characters are marks, and the whole input is there.
  await page.getByText("git push --force⟨U+202E⟩ origin").first().waitFor();
  await page.getByRole("button", { name: "Allow once", exact: true }).click();
  await page.waitForFunction(() => !document.title.startsWith("("));
  await other.getByRole("button", { name: "Allow once", exact: true }).waitFor({ state: "detached" });
  const settled = (await until("the settled request", async () => (await events(id)).filter((event) => event.type === "request_settled")))[0];
  assert.equal(settled.decision, "allow_once");
  assert.match(settled.by, /^web\/chrome-linux/);

  // In the session, by key: only the focused card answers, never the message field.
  await page.goto(`${BASE}/s/${id}`);
  await obey("session", "send", id, "--no-wait", `again SCRIPT: ${JSON.stringify(ask("rm one"))}`);
  const card = page.getByRole("region", { name: /wants to run a command/ });
  await card.waitFor();
  await page.getByRole("textbox", { name: "Message" }).pressSequentially("yes n s a y");
  assert.equal((await events(id)).filter((event) => event.type === "request_settled").length, 1, "typing answers nothing");
  await page.getByRole("textbox", { name: "Message" }).fill("");
  await card.focus();
  await until("the card answers", async () => {
    await card.press("n").catch(() => {});
    return (await events(id)).filter((event) => event.type === "request_settled").length === 2;
  });
  await page.getByRole("log").getByText(/denied by web\/chrome-linux/).waitFor();

  // Two answer at once: one counts, the other is told.
  const id2 = await session("twice", ask("touch two"));
  await page.goto(`${BASE}/s/${id2}`);
  await other.goto(`${BASE}/s/${id2}`);
  const buttons = [page, other].map((one) => one.getByRole("button", { name: "Allow once", exact: true }));
  for (const button of buttons) await button.waitFor();
  await page.waitForFunction(() => performance.now() > 0);
  await until("one answer", async () => {
    await Promise.all(buttons.map((button) => button.click({ timeout: 1_000 }).catch(() => {})));
    return (await events(id2)).some((event) => event.type === "request_settled");
  });
  await until("the turn's end", async () => (await events(id2)).some((event) => event.type === "turn_ended"));
  assert.equal((await events(id2)).filter((event) => event.type === "request_settled").length, 1);
  for (const one of [page, other]) await one.getByRole("log").getByText(/allowed once by web\/chrome-linux/).waitFor();

  // A question, answered by choosing.
  const id3 = await session("asker", [{ question: { text: "Which colour?", options: ["Red", "Blue"] } }]);
  await page.goto(`${BASE}/s/${id3}`);
  await page.getByRole("radio", { name: /Blue/ }).check();
  await until("the answer", async () => {
    await page.getByRole("button", { name: "Answer", exact: true }).click({ timeout: 1_000 }).catch(() => {});
    return (await events(id3)).some((event) => event.type === "request_settled");
  });
  await page.getByRole("log").getByText("answered: Blue").first().waitFor();

  // Ten at once are all shown.
  for (let at = 0; at < 4; at += 1) await session(`many${at}`, ask(`touch ${at}`));
  await page.goto(`${BASE}/`);
  await until("four cards", async () => (await page.getByRole("button", { name: "Allow once", exact: true }).count()) === 4);
  assert.ok((await page.title()).startsWith("(4) "));
});
