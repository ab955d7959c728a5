// Sessions of other machines: listed, read and answered like those of this one; a machine that is gone is said to be, blocks nobody,
// and goes on where it was when it is back.
import { join } from "node:path";
import { writeFileSync } from "node:fs";
import { BASE, accessible, obey, scenario, session, signIn, until } from "./drive.mjs";

const env = process.env;
const ID = env.PAGE_SESSION;

await scenario(async ({ page, assert }) => {
  const own = await session("own", [{ text: "here at home" }]);
  await signIn(page);

  // One list; the machine that is gone is named and holds up nobody.
  const inbox = page.getByRole("list", { name: "Inbox" });
  const asks = inbox.getByRole("listitem").filter({ hasText: "asks" });
  await asks.filter({ hasText: "needs you" }).filter({ hasText: "here" }).waitFor();
  await inbox.getByRole("listitem").filter({ hasText: "own" }).waitFor();
  const machines = page.getByRole("list", { name: "Machines" });
  await machines.getByRole("listitem").filter({ hasText: "away" }).filter({ hasText: "not reached" }).waitFor();
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  const card = page.getByRole("region", { name: "asks wants to run a command" });
  await card.getByText("touch made").first().waitFor();
  await accessible(page, "the inbox of several machines");

  // Its transcript, also after the page was loaded anew at its address; then the answer.
  await asks.getByRole("link").click();
  const log = page.getByRole("log");
  await log.getByText("touch made").first().waitFor();
  assert.equal(new URL(page.url()).pathname, `/s/${ID}`);
  await page.reload();
  await log.getByText("touch made").first().waitFor();
  await page.getByRole("banner").or(page.locator("header")).getByText("on here").first().waitFor();
  await accessible(page, "a session of another machine");
  const allow = page.getByRole("button", { name: "Allow once" });
  await until("the button", () => allow.isEnabled());
  await allow.click();
  await log.getByText("the end").waitFor();
  await page.waitForFunction(() => !document.title.startsWith("("));

  // A prompt goes there, and what comes of it arrives live.
  const field = page.getByRole("textbox", { name: "Message" });
  await field.fill(`again SCRIPT: ${JSON.stringify([{ text: "from afar" }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("from afar", { exact: true }).waitFor();

  // The machine goes: said at once, and everything else works.
  writeFileSync(join(env.PAGE_PROFILE, "kill"), "");
  await page.getByRole("status").filter({ hasText: "here is not reached" }).waitFor();
  await machines.getByRole("listitem").filter({ hasText: "here" }).filter({ hasText: "not reached" }).waitFor();
  await inbox.getByRole("link", { name: /own/ }).click();
  await log.getByText("here at home", { exact: true }).waitFor();
  await page.goBack();
  await page.waitForURL(`${BASE}/s/${ID}`);

  // It comes back: the same session goes on, nothing is shown twice.
  writeFileSync(join(env.PAGE_PROFILE, "back"), "");
  await machines.getByRole("listitem").filter({ hasText: "here" }).filter({ hasNotText: "not reached" }).waitFor();
  await log.getByText("from afar", { exact: true }).waitFor();
  await field.fill(`once more SCRIPT: ${JSON.stringify([{ text: "back again" }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("back again", { exact: true }).waitFor();
  assert.equal(await log.getByText("from afar", { exact: true }).count(), 1);

  // Words are found on every machine, and a session is started on another one.
  await page.goto(`${BASE}/search?q=afar`);
  await page.getByRole("list", { name: "Hits" }).getByText("here ·").first().waitFor();
  // What is of this machine only says so, and how to have that of another.
  for (const [screen, command] of [["usage", "usage"], ["audit", "audit"], ["memory", "memory search"], ["settings", "device list"]]) {
    await page.goto(`${BASE}/${screen}`);
    await page.getByText(/^Of .+ only\. For another one:/).getByText(`obey --machine NAME ${command}`, { exact: true }).waitFor();
  }
  await page.goto(`${BASE}/new`);
  await page.getByRole("combobox", { name: "Machine" }).selectOption({ label: "here" });
  await until("its project", async () => (await page.getByRole("combobox", { name: "Campaign" }).innerText()).includes("demo"));
  await page.getByRole("combobox", { name: "Agent" }).selectOption("scripted");
  await page.getByRole("textbox", { name: "Name" }).fill("begun");
  await page.getByRole("textbox", { name: "First message" }).fill(`SCRIPT: ${JSON.stringify([{ text: "begun there" }])}`);
  await page.getByRole("button", { name: "Start" }).click();
  await log.getByText("begun there", { exact: true }).waitFor();
  const rows = (await obey("--json", "ps")).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  assert.equal(rows.find((row) => row.name === "begun")?.machine, "here", "it is not on this machine");
  assert.ok((await obey("--machine", "here", "ps")).includes("begun"), "it is there");
  assert.ok((await obey("ps")).includes("own") && own.startsWith("sess_"));
});
