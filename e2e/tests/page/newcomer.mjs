// Somebody who never used it: the first screen leads to a session, no agent is proposed that they did not choose, the agent works in
// a tree of its own and asks while they are away, they answer in a window of a phone's size, look at the changes and merge them.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const git = (...args) => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: process.cwd(), encoding: "utf8" });

await scenario(async ({ page, assert }) => {
  if (!existsSync(".git")) git("init", "-q");
  git("config", "user.name", "t");
  git("config", "user.email", "t@t");
  writeFileSync("hello.txt", "hello\n");
  git("add", ".");
  git("commit", "-q", "-m", "first");
  await signIn(page);
  await page.getByText("Nothing needs you. Nobody is working.").waitFor();
  await page.getByRole("link", { name: "Start a session" }).click();
  const agent = page.getByRole("combobox", { name: "Agent" });
  await agent.locator("option", { hasText: "OpenAI-compatible API" }).waitFor({ state: "attached" });
  assert.notEqual(await agent.inputValue(), "openai-api", "an agent that needs a model of one's own is not proposed");
  await agent.selectOption("scripted");
  // What a mode means is said beside it.
  await page.getByRole("combobox", { name: "Mode", exact: true }).selectOption("plan");
  await page.getByText("It changes nothing until its plan is approved.").waitFor();
  await page.getByRole("combobox", { name: "Mode", exact: true }).selectOption("supervised");
  await page.getByRole("combobox", { name: "Working tree" }).selectOption("new");
  await page.getByRole("textbox", { name: "Branch" }).fill("greeting");
  await page.getByRole("textbox", { name: "Name" }).fill("greeter");
  const script = [{ text: "I would like to write it." }, { tool: "Bash", input: { command: "echo goodbye > hello.txt" }, ask: true, result: "ok" }, { text: "It is written." }];
  await page.getByRole("textbox", { name: "First message" }).fill(`Say goodbye SCRIPT: ${JSON.stringify(script)}`);
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("heading", { level: 1, name: "greeter" }).waitFor();
  const id = new URL(page.url()).pathname.split("/")[2];

  // Away, and back with a phone: what needs them is the first thing on it.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(BASE);
  const allow = page.getByRole("button", { name: "Allow once" });
  await page.locator("button:enabled", { hasText: "Allow once" }).waitFor();
  assert.ok((await allow.boundingBox()).height >= 44, "room for a finger");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is wider than the screen");
  await allow.click();

  // Done: it is in the list, and on a desk among what there is to look at. The changes are a step away.
  await page.getByRole("list", { name: "Inbox" }).getByRole("link", { name: /greeter.*done/ }).waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("region", { name: "Done, not looked at" }).getByRole("link", { name: /greeter/ }).click();
  writeFileSync(`${(await events(id))[0].working_dir}/hello.txt`, "goodbye\n");
  await page.getByRole("complementary", { name: "About this session" }).getByRole("link", { name: "Review" }).click();
  await page.getByRole("region", { name: "hello.txt" }).getByText("+goodbye").waitFor();
  await page.getByRole("button", { name: "Merge…" }).click();
  await page.getByRole("dialog", { name: "Merge" }).getByRole("button", { name: /^Merge into/ }).click();
  await page.getByRole("status").filter({ hasText: /^Merged into/ }).waitFor();
  assert.equal(readFileSync("hello.txt", "utf8"), "goodbye\n");

  // Of many idle sessions the open one is in the list, beside how many more there are.
  const idle = [];
  for (let at = 0; at < 4; at += 1) idle.push(await session(`idle${at}`));
  await page.goto(`${BASE}/s/${idle[0]}`);
  await page.getByRole("list", { name: "Inbox" }).getByRole("link", { name: /idle0.*idle/ }).waitFor();
  await page.getByRole("button", { name: /more idle/ }).click();
  await page.getByRole("list", { name: "Inbox" }).getByRole("link", { name: /idle3.*idle/ }).waitFor();

  // The next session is proposed with the agent that ran last, also in another browser profile and after the first has ended.
  await obey("session", "stop", id);
  await page.evaluate(() => localStorage.clear());
  await page.goto(`${BASE}/new`);
  await until("the agent that ran last", async () => (await agent.inputValue()) === "scripted");
});
