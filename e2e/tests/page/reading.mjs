// Reading: the row under the reader's eyes stays where it is while events arrive, runs of calls are opened above it and the window
// changes; hundreds of calls open at once; thinking opens by a setting; large letters and forced colours lose nothing.
import { BASE, accessible, obey, scenario, session, signIn, until } from "./drive.mjs";

/** The first row that begins on the screen, and where. */
const anchor = (page) =>
  page.getByRole("log").evaluate((box) => {
    const top = box.getBoundingClientRect().top;
    for (const row of box.querySelectorAll(".row")) {
      const rect = row.getBoundingClientRect();
      if (rect.height > 0 && rect.top >= top) return { seq: row.dataset.seq, at: rect.top - top };
    }
    return null;
  });
const place = (page, seq) =>
  page.getByRole("log").evaluate((box, seq) => {
    const row = box.querySelector(`.row[data-seq="${seq}"]`);
    return row === null ? null : row.getBoundingClientRect().top - box.getBoundingClientRect().top;
  }, seq);

await scenario(async ({ page, assert }) => {
  const calls = Array.from({ length: 500 }, (_, at) => ({ tool: "Bash", input: { command: `echo ${at}` }, result: at === 250 ? "it broke" : "ok", ok: at !== 250 }));
  const id = await session("reader", [...calls, { thinking: "pondering deeply about it" }, { text: "all were run" }]);
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  await log.getByText("all were run", { exact: true }).waitFor();

  // Five hundred calls are few rows; the failed one is visible without opening any.
  await until("all calls", async () => (await log.locator(".row-calls").count()) === 10);
  await log.locator(".row-calls summary .failed", { hasText: "echo 250" }).waitFor();
  const toggle = () => log.evaluate((box) => new Promise((resolve) => {
    const from = performance.now();
    for (const head of box.querySelectorAll(".row-calls > details > summary")) head.click();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(Math.round(performance.now() - from))));
  }));
  console.log(`500 calls open in ${await toggle()} ms`);
  const opened = await log.locator(".row-calls").evaluateAll((rows) => rows.map((row) => row.querySelectorAll(".call").length));
  assert.ok(opened.length > 0 && opened.every((calls) => calls === 50), `calls of the rows that are built: ${opened}`);
  await toggle();
  await until("they are folded again", async () => (await log.locator(".call").count()) === 0);

  // Thinking is one line with its length, until the setting opens it.
  await log.getByText("Thought · 25 characters").waitFor();
  assert.equal(await log.getByText("pondering deeply about it", { exact: true }).count(), 0);
  await page.goto(`${BASE}/settings`);
  await page.getByRole("checkbox", { name: /what agents think/ }).check();
  await page.goto(`${BASE}/s/${id}`);
  await log.getByText("pondering deeply about it", { exact: true }).waitFor();

  // The reader's place: in the middle of many turns, while more arrive.
  for (let turn = 0; turn < 12; turn += 1) {
    await obey("session", "send", id, `turn ${turn} SCRIPT: ${JSON.stringify([{ text: `words of turn ${turn} `.repeat(60) }, { tool: "Bash", input: { command: `ls ${turn}` }, result: "a\n".repeat(30) }])}`);
  }
  await log.getByText("words of turn 11").last().waitFor();
  await log.hover();
  await page.mouse.wheel(0, -2_500);
  let seen = await until("the scrolling has come to rest", async () => {
    const before = await anchor(page);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 100)))));
    const after = await anchor(page);
    return before !== null && after !== null && before.seq === after.seq && before.at === after.at ? after : null;
  });
  const stays = async (what) => {
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    const now = await place(page, seen.seq);
    assert.ok(now !== null && Math.abs(now - seen.at) <= 1, `${what}: row ${seen.seq} moved from ${seen.at} to ${now}`);
  };
  await obey("session", "send", id, `more SCRIPT: ${JSON.stringify([{ flood: { lines: 2_000, text: "line\n\n" } }, { text: "behind the flood" }])}`);
  await page.getByRole("button", { name: /^↓ .*new/ }).waitFor();
  await stays("two thousand events");
  // A run of calls above the screen is opened by a program that reads the page, as a screen reader does.
  await log.evaluate((box) => {
    const top = box.getBoundingClientRect().top;
    const above = [...box.querySelectorAll(".row-calls")].findLast((row) => row.getBoundingClientRect().bottom < top);
    above?.querySelector("summary")?.click();
  });
  await stays("a run that was opened above");
  // A picture that is attached to the message, the one place where pictures load.
  const picture = await page.screenshot({ type: "png" });
  await page.locator('input[type="file"]').setInputFiles({ name: "picture.png", mimeType: "image/png", buffer: picture });
  await page.getByRole("list", { name: "Files" }).locator("img").waitFor();
  await until("the picture", () => page.getByRole("list", { name: "Files" }).locator("img").evaluate((image) => image.complete && image.naturalWidth > 0));
  await stays("a picture that was loaded");
  // A lower window. (Where it gets narrower, lines break elsewhere within the row itself.)
  await page.setViewportSize({ width: 1440, height: 700 });
  await stays("a lower window");

  // Twice as large letters are half as wide a window: nothing is beside the screen, and everything can be reached.
  for (const [width, height] of [[720, 450], [320, 640]]) {
    await page.setViewportSize({ width, height });
    await page.getByRole("textbox", { name: "Message" }).waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width} px`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ forcedColors: "active" });
  await accessible(page, "forced colours");
  await page.getByRole("button", { name: "Send" }).waitFor();
  await page.emulateMedia({ forcedColors: "none" });
});
