// How turns end and what comes into them: each looks different and says why.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(async ({ page, assert }) => {
  const id = await session("turns", [{ text: "working on it" }, { hang: true }]);
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  const message = page.getByRole("textbox", { name: "Message" });
  const send = (words, script) => obey("session", "send", id, `${words} SCRIPT: ${JSON.stringify(script)}`);
  await log.getByText("working on it", { exact: true }).waitFor();

  // Added to the turn that runs; another waits for its end.
  await message.fill("also the tests");
  await page.getByRole("button", { name: "Add to the turn" }).click();
  await log.locator(".row-prompt", { hasText: "also the tests" }).getByText(/added to the turn/).waitFor();
  await message.fill('afterwards SCRIPT: [{"text":"now afterwards"}]');
  await page.getByRole("button", { name: "Queue" }).click();
  await page.getByRole("list", { name: "Queue" }).getByText("afterwards").waitFor();
  await page.getByRole("button", { name: "Cancel turn" }).click();
  await log.locator(".fail", { hasText: "Turn cancelled" }).waitFor();
  await page.getByRole("button", { name: "Continue" }).click({ timeout: 2_000 }).catch(() => {});
  await log.getByText("now afterwards", { exact: true }).waitFor();
  await log.locator(".rule:not(.fail)", { hasText: "Turn completed" }).first().waitFor();
  await until("its end", async () => (await events(id)).filter((event) => event.type === "turn_ended").length === 2);

  // Failed, with its words.
  await send("broken", [{ error: "the model is overloaded" }]).catch(() => {});
  await log.locator(".fail", { hasText: "Turn failed" }).first().waitFor();
  await log.locator(".fail", { hasText: "the model is overloaded" }).last().waitFor();

  // The conversation was compacted: a line of its own, with its tokens where the agent tells them.
  await send("compact", [{ compact: true }, { text: "shorter now" }]);
  await log.locator(".rule", { hasText: "Conversation compacted" }).waitFor();

  // Stopped by its budget: it says so.
  const out = await obey("session", "create", "-c", "project", "--provider", "scripted", "--name", "spender", "--max-tokens", "100");
  const spender = /^Session: (\S+)/m.exec(out)[1];
  await page.goto(`${BASE}/s/${spender}`);
  await obey("session", "send", spender, "--no-wait", `spend SCRIPT: ${JSON.stringify([{ usage: { input_tokens: 400, output_tokens: 400 } }, { text: "more" }, { hang: true }])}`);
  await log.locator(".fail", { hasText: "Turn ended: the budget is used up" }).waitFor();
  // Its header has what is used of the budget.
  await page.locator("header .spent.warn", { hasText: "100 % of 100 tokens" }).waitFor();

  // Failed for good: the code leads to its page, which opens beside this one.
  const crashed = await session("crashed", [{ text: "so far so good" }, { crash: 3 }]);
  await page.goto(`${BASE}/s/${crashed}`);
  const code = log.getByRole("link", { name: "OBEY-2031" }).first();
  assert.equal(await code.getAttribute("rel"), "noopener");
  const [explained] = await Promise.all([page.waitForEvent("popup"), code.click()]);
  await explained.getByRole("heading", { level: 1, name: /OBEY-2031/ }).waitFor();
  await explained.close();
  assert.equal(new Set(["Turn cancelled", "Turn failed", "Turn completed", "Turn ended: the budget is used up"]).size, 4);
});
