// The answers to a request, each as the journal has it: with a changed input, with words, with the end of the turn; a question by
// its number; what destroys needs a second press; ten requests at once; and the controls of a session: cancel, stop, restart, mode.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const ask = (command) => ({ tool: "Bash", input: { command, description: "what it is for" }, ask: true, result: "ran" });
const settled = async (id, count) => until(`${count} answers`, async () => {
  const all = (await events(id)).filter((event) => event.type === "request_settled");
  return all.length >= count ? all : null;
});

await scenario(async ({ page, assert }) => {
  const id = await session("asker", [ask("rm -rf build"), ask("git push"), { text: "still here" }, ask("make release"), { text: "never said" }]);
  await signIn(page, `/s/${id}`);
  const card = page.getByRole("region", { name: "asker wants to run a command" });
  const press = async (name) => page.locator("button:enabled", { hasText: new RegExp(`^${name}`) }).first().click();

  // The call itself says what it waits for.
  await page.getByRole("log").getByText("waiting for permission").waitFor();
  // The whole input is there; it is changed, and what is not JSON is not sent.
  await card.getByText("Whole input").click();
  await card.getByText("what it is for").waitFor();
  await card.getByRole("button", { name: "Change the input" }).click();
  const input = card.getByRole("textbox", { name: /Input that is allowed/ });
  await input.fill("rm -rf build/tmp");
  await press("Allow once");
  await page.getByRole("alert").filter({ hasText: "not JSON" }).waitFor();
  await input.fill('{"command":"rm -rf build/tmp"}');
  // What does not come back says so, and why somebody is asked. It needs a second press; a double click is one press.
  await card.getByText("This removes files: allowing it needs a second press.").waitFor();
  await card.getByText("Why you are asked: no rule covers it; mode supervised asks").waitFor();
  const answers = [];
  page.on("request", (request) => request.url().endsWith("/AnswerPermission") && answers.push(request));
  await card.getByRole("button", { name: "Allow once" }).dblclick();
  await card.getByRole("status").filter({ hasText: "Press Allow once again: it removes files." }).waitFor();
  await card.focus();
  await page.keyboard.press("a");
  await card.getByRole("status").filter({ hasText: /Press Allow (once|for this session) again/ }).waitFor();
  assert.equal(answers.length, 0, "one press allows nothing that destroys");
  const [sent] = await Promise.all([
    page.waitForRequest(`${BASE}/obey.v1.RequestService/AnswerPermission`),
    until("the second press", async () => {
      if (answers.length === 0) await card.getByRole("button", { name: "Allow once" }).click({ timeout: 1_000 }).catch(() => {});
      return answers.length > 0;
    }),
  ]);
  assert.equal(sent.postDataJSON().updated_input_json, '{"command":"rm -rf build/tmp"}');
  await settled(id, 1);

  // A denial with words, which the agent is told.
  await card.getByText("git push").first().waitFor();
  await card.getByRole("textbox", { name: /Words for the agent/ }).fill("not on a Friday");
  await press("Deny");
  const denied = (await settled(id, 2))[1];
  assert.ok(JSON.stringify(denied).includes("not on a Friday"));
  await page.getByRole("log").getByText("not on a Friday").waitFor();

  // Denied and stopped: the turn ends.
  await card.getByText("make release").first().waitFor();
  await press("Deny and stop");
  await page.getByRole("log").getByText(/Turn (cancelled|interrupted|failed|completed)/).waitFor();
  assert.ok(!(await events(id)).some((event) => event.text === "never said"));

  // A question by its number, with the keyboard alone.
  const asker = await session("colours", [{ question: { text: "Which colour?", options: ["Red", "Green", "Blue"] } }]);
  await page.goto(`${BASE}/s/${asker}`);
  const question = page.getByRole("region", { name: "colours asks" });
  await question.waitFor();
  await page.locator("button:enabled", { hasText: "Answer" }).waitFor();
  await question.focus();
  await page.keyboard.press("2");
  assert.ok(await page.getByRole("radio", { name: /Green/ }).isChecked());
  await page.getByRole("button", { name: "Answer", exact: true }).press("Enter");
  await page.getByRole("log").getByText("answered: Green").first().waitFor();

  // Ten wait at once: all are in the inbox and in the title, oldest first.
  for (let at = 0; at < 10; at += 1) await session(`ten${at}`, [ask(`touch ${at}`)]);
  await page.goto(`${BASE}/`);
  await page.waitForFunction(() => document.title === "(10) obey");
  await until("ten cards", async () => (await page.getByRole("button", { name: "Allow once" }).count()) === 10);
  assert.deepEqual(await page.locator(".entry > p").allInnerTexts(), Array.from({ length: 10 }, (_, at) => `ten${at}`));

  // Cancel by its key; another mode; stop and start again.
  const runner = await session("runner", [{ text: "running" }, { hang: true }]);
  await page.goto(`${BASE}/s/${runner}`);
  await page.getByRole("log").getByText("running", { exact: true }).waitFor();
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press(".");
  await page.getByRole("log").getByText("Turn cancelled").waitFor();
  await page.getByRole("combobox", { name: "Mode" }).selectOption("plan");
  await until("the mode", async () => (await events(runner)).some((event) => event.type === "mode_changed"));
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Restart" }).click();
  await until("it runs again", async () => (await events(runner)).some((event) => event.type === "restarted"));
  await page.getByRole("textbox", { name: "Message" }).fill('again SCRIPT: [{"text":"back again"}]');
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log").getByText("back again", { exact: true }).waitFor();
  // Nothing of it was lost on the command line.
  assert.ok((await obey("session", "log", runner)).includes("back again"));
});
