// The page as somebody finds it who knows only roles and names: the inbox is a list whose items name session, state and reason,
// the transcript a log, the message field a textbox, the answers buttons, the connection a status, panels dialogs, and the
// title counts who needs somebody.
import { BASE, events, obey, scenario, session, until } from "./drive.mjs";

await scenario(async ({ page, assert }) => {
  const id = await session("fixer", [{ text: "I looked." }, { tool: "Bash", input: { command: "git push" }, ask: true, result: "pushed" }, { text: "All done." }]);
  const printed = JSON.parse(await obey("web", "--json"));
  assert.match(printed.url, /^http:\/\/127\.0\.0\.1:\d+\/#k=[0-9a-f]{32}$/);
  const plain = (await obey("web", "--no-open")).trim().split("\n")[0];
  assert.match(plain, /^http:\/\/127\.0\.0\.1:\d+\/#k=[0-9a-f]{32}$/);

  // Without a key: refused by the daemon, with the remedy.
  await page.goto(`${BASE}/s/${id}`);
  const refused = await page.evaluate(async (session_id) => {
    const answer = await fetch("/obey.v1.TurnService/Prompt", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ session_id, text: "x" }) });
    return `${answer.status} ${await answer.text()}`;
  }, id);
  assert.match(refused, /^403 .*obey web/);

  await page.goto(printed.url);
  await page.getByRole("status").getByText("live").waitFor();
  const item = page.getByRole("list", { name: "Inbox" }).getByRole("listitem").filter({ hasText: "fixer" });
  await item.filter({ hasText: "needs you" }).filter({ hasText: "git push" }).waitFor();
  await page.waitForFunction(() => document.title === "(1) obey");
  await item.getByRole("link").click();
  await page.waitForURL(`${BASE}/s/${id}`);
  const log = page.getByRole("log");
  await log.getByText("I looked.", { exact: true }).waitFor();
  const message = page.getByRole("textbox", { name: "Message" });
  for (const name of ["Allow once", "Allow for this session", "Deny", "Deny and stop"]) {
    await page.getByRole("button", { name, exact: true }).waitFor();
  }
  // A turn runs: what is written waits for its end, however it is sent, and every prompt that waits is in a list.
  for (const [at, words] of ["first", "second"].entries()) {
    await message.fill(`${words} SCRIPT: [{"text":"answer to ${words}"}]`);
    await page.getByRole("button", { name: "Queue" }).click();
    await until("the queue", async () => (await page.getByRole("list", { name: "Queue" }).getByRole("listitem").count()) === at + 1);
  }
  await page.getByRole("button", { name: "Allow once" }).click();
  await log.getByText("answer to second", { exact: true }).waitFor();
  await page.waitForFunction(() => !document.title.startsWith("("));
  await message.fill('once more SCRIPT: [{"text":"answered again"}]');
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("answered again", { exact: true }).waitFor();
  const by = (await events(id)).filter((event) => ["turn_started", "request_settled"].includes(event.type)).map((event) => event.by);
  for (const one of by.slice(1)) assert.match(one, /^web\/chrome-linux/, by.join(" "));
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Commands" }).waitFor();
  await page.keyboard.press("Escape");
  // A list of devices names it; revoking it signs it out.
  const listed = JSON.parse(await obey("device", "list", "--json")).devices.filter((one) => one.proof === "page");
  assert.equal(listed.length, 1);
  await obey("device", "revoke", listed[0].name);
  await page.getByRole("status").getByText("signed out").waitFor();
  const document = await page.evaluate(async () => (await (await fetch("/api/openapi.json")).json()).paths["/obey.v1.TurnService/Prompt"] !== undefined);
  assert.ok(document);
});
