// A session in a worktree of its own is started, its changes are reviewed with a comment on a line that reaches the agent as one
// prompt, and merged into the branch it came from.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { BASE, accessible, events, obey, scenario, signIn, until } from "./drive.mjs";

const git = (...args) => execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: process.cwd(), encoding: "utf8" });

await scenario(async ({ page, assert }) => {
  if (!existsSync(".git")) git("init", "-q");
  git("config", "user.name", "t");
  git("config", "user.email", "t@t");
  writeFileSync("cart.txt", "one\ntwo\nthree\n");
  writeFileSync("space.txt", "a b\nkept\n");
  writeFileSync("before.txt", "it stays\n".repeat(20));
  git("add", ".");
  git("commit", "-q", "-m", "first");
  const base = git("rev-parse", "--abbrev-ref", "HEAD").trim();
  await signIn(page, "/new");
  await page.getByRole("combobox", { name: "Agent" }).selectOption({ label: "Scripted (needs no model)" });
  await page.getByRole("combobox", { name: "Working tree" }).selectOption("new");
  await page.getByRole("textbox", { name: "Branch" }).fill("fix-cart");
  await page.getByRole("textbox", { name: "Name" }).fill("treeman");
  await page.getByRole("textbox", { name: "First message" }).fill('SCRIPT: [{"text":"ready"}]');
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("log").getByText("Turn completed").waitFor();
  const id = new URL(page.url()).pathname.split("/")[2];
  const folder = (await events(id))[0].working_dir;
  assert.notEqual(folder, process.cwd());
  writeFileSync(`${folder}/cart.txt`, "one\n2\nthree\nfour <b>\n");
  writeFileSync(`${folder}/space.txt`, "a  b\nkept\n");
  mkdirSync(`${folder}/tests`, { recursive: true });
  writeFileSync(`${folder}/tests/zero.txt`, "new\n");
  writeFileSync(`${folder}/package-lock.json`, "{}\n".repeat(900));
  writeFileSync(`${folder}/long.txt`, Array.from({ length: 5_000 }, (_, at) => `line ${at}\n`).join(""));
  writeFileSync(`${folder}/picture.bin`, Buffer.from([0, 1, 2, 0, 255]));
  execFileSync("git", ["mv", "before.txt", "behind.txt"], { cwd: folder });
  // A repository of its own is not compared, and the review says so.
  mkdirSync(`${folder}/nested`);
  execFileSync("git", ["init", "-q"], { cwd: `${folder}/nested` });
  writeFileSync(`${folder}/nested/own.txt`, "its own\n");

  await page.keyboard.press("Escape");
  await page.goto(`${BASE}/s/${id}`);
  await page.getByRole("heading", { level: 1, name: "treeman" }).waitFor();
  await page.keyboard.press("d");
  await page.getByRole("heading", { level: 1, name: "Review" }).waitFor();
  const file = page.getByRole("region", { name: "cart.txt", exact: true });
  await file.getByText("+2 −1").waitFor();
  await file.getByText("+four <b>").waitFor();
  await page.getByRole("region", { name: "package-lock.json" }).getByRole("button", { name: "Show 900 lines" }).waitFor();
  await page.getByRole("list", { name: "Paths that are not compared" }).getByText("nested", { exact: false }).first().waitFor();
  await page.getByText("1 path is not compared").waitFor();
  // Where a line took another one's place, the words that changed are marked.
  const changed = page.getByRole("region", { name: "space.txt", exact: true }).locator(".changed");
  await changed.waitFor();
  assert.deepEqual(await changed.allTextContents(), [" "]);
  await accessible(page, "the review");
  // Every file is a step away, by list and by key; what was looked at is folded, and not after it changed.
  const files = page.getByRole("list", { name: "Changed files" });
  await files.getByRole("button", { name: /zero\.txt/ }).click();
  await page.waitForFunction(() => document.activeElement?.textContent.includes("zero.txt"));
  const at = await page.evaluate(() => Number(document.activeElement.id.replace("file-", "")));
  await page.keyboard.press("[");
  await page.waitForFunction((before) => document.activeElement?.id === `file-${before}`, at - 1);
  await file.getByRole("checkbox", { name: "Looked at cart.txt" }).check();
  await file.getByText("+four <b>").waitFor({ state: "detached" });
  await page.getByText(/ · 1 looked at$/).waitFor();
  await page.reload();
  await files.getByRole("button", { name: /looked at: *cart\.txt/ }).waitFor();
  writeFileSync(`${folder}/cart.txt`, "one\n2\nthree\nfour <b>\nfive\n");
  await page.getByRole("button", { name: "Refresh" }).click();
  await file.getByText("+five").waitFor();
  writeFileSync(`${folder}/cart.txt`, "one\n2\nthree\nfour <b>\n");
  await page.getByRole("button", { name: "Refresh" }).click();
  const mark = file.getByRole("checkbox", { name: "Looked at cart.txt" });
  await until("it is as it was looked at", () => mark.isChecked());
  await mark.uncheck();
  await file.getByText("+four <b>").waitFor();
  // Binary and renamed files are named; five thousand lines are shown when somebody asks for them.
  await page.getByRole("region", { name: /picture\.bin/ }).getByText("binary").waitFor();
  await page.getByRole("region", { name: /behind\.txt/ }).getByText(/before\.txt/).waitFor();
  const long = page.getByRole("region", { name: "long.txt", exact: true });
  const show = long.getByRole("button", { name: "Show 5,000 lines" });
  await show.waitFor();
  // From the press to the first lines and to all of them, as the page itself sees it.
  await long.evaluate((section) => {
    section.addEventListener("click", () => (window.pressedAt ??= performance.now()), { capture: true });
    new MutationObserver(() => {
      const built = section.querySelectorAll(".diff-line").length;
      if (built > 0 && window.firstAt === undefined) requestAnimationFrame(() => (window.firstAt ??= performance.now()));
      if (built > 5_000) requestAnimationFrame(() => (window.wholeAt ??= performance.now()));
    }).observe(section, { childList: true, subtree: true });
  });
  await show.click();
  await long.getByText("+line 0", { exact: true }).waitFor();
  await long.getByText("+line 4999", { exact: true }).waitFor({ state: "attached" });
  await page.waitForFunction(() => window.wholeAt !== undefined);
  const [first, whole] = await page.evaluate(() => [window.firstAt - window.pressedAt, window.wholeAt - window.pressedAt]);
  console.log(`a file of 5,000 lines is shown after ${Math.round(first)} ms and whole after ${Math.round(whole)} ms`);
  assert.equal(await long.locator(".diff-line.add").count(), 5_000);
  // Folded again: what follows is about the other files.
  await page.getByRole("checkbox", { name: "Looked at long.txt" }).check();
  await long.locator(".diff-line").first().waitFor({ state: "detached" });
  // In two columns, and without changes of white space alone.
  await page.getByRole("checkbox", { name: "Side by side" }).check();
  await file.locator(".two-columns .diff-line.del", { hasText: "-two" }).waitFor();
  await file.locator(".two-columns .diff-line.add", { hasText: "+2" }).waitFor();
  await accessible(page, "the review in two columns");
  await page.getByRole("checkbox", { name: "Side by side" }).uncheck();
  const spaced = page.getByRole("region", { name: "space.txt", exact: true });
  await spaced.getByText("-a b", { exact: true }).waitFor();
  await page.getByRole("checkbox", { name: "Ignore white space" }).check();
  await spaced.getByText("-a b", { exact: true }).waitFor({ state: "detached" });
  await page.getByRole("checkbox", { name: "Ignore white space" }).uncheck();
  await file.getByRole("button", { name: "Comment on line 4" }).click();
  await file.getByRole("textbox", { name: "Comment on line 4" }).fill("Why four?");
  await file.getByRole("button", { name: "Add comment" }).click();
  await page.reload();
  await page.getByText("Why four?").waitFor();
  await page.getByRole("button", { name: "Send 1 comment" }).click();
  await page.getByRole("heading", { level: 1, name: "treeman" }).waitFor();
  const prompt = await until("the prompt", async () => (await events(id)).filter((event) => event.type === "turn_started")[1]);
  for (const part of ["cart.txt:4", "> four <b>", "Why four?"]) assert.ok(prompt.prompt.includes(part), prompt.prompt);

  // The agent goes on without a script and asks; that is not what this is about.
  await page.getByRole("button", { name: "Deny and stop", exact: true }).click();
  await until("the session rests", async () => (await events(id)).filter((event) => event.type === "turn_ended").length === 2);
  await page.goto(`${BASE}/s/${id}/review`);
  // What it is to merge is not about the repository of its own.
  rmSync(`${folder}/nested`, { recursive: true });
  await page.getByRole("button", { name: "Merge…" }).click();
  const dialog = page.getByRole("dialog", { name: "Merge" });
  await dialog.getByText(`into ${base}, which has 0 newer`, { exact: false }).waitFor();
  await dialog.getByRole("button", { name: `Merge into ${base}` }).click();
  await page.getByRole("status").filter({ hasText: `Merged into ${base}` }).waitFor();
  assert.ok(git("show", `${base}:cart.txt`).includes("four"));
  await obey("session", "stop", id);
});
