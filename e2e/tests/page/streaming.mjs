// A long answer that streams in many pieces ends with the same elements as one that is read whole, and with the journal's text; a
// session of very many events opens at its end. How long it takes is printed, never judged.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const PART = "Some *text* with `code` and [a link](https://example.com/x).\n\n- one\n  - two\n- three\n\n```rust\nfn main() { let x = 1; }\n```\n\n> quoted\n> more\n\n| a | b |\n|---|---|\n| 1 | **2** |\n\n1. first\n2. second\n\nA paragraph that is\nbroken over lines. See [it][ref].\n\n[ref]: https://example.com/ref\n\n";

/** 100,000 to measure; fewer show the same. */
const EVENTS = Number(process.env.PAGE_EVENTS ?? 30_000);

await scenario(async ({ page, assert }) => {
  const id = await session("fast");
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  await page.evaluate(() => {
    window.gaps = [];
    let last = performance.now();
    const step = (now) => {
      window.gaps.push(now - last);
      last = now;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  const text = PART.repeat(12);
  const began = Date.now();
  await obey("session", "send", id, "--no-wait", `go SCRIPT: ${JSON.stringify([{ text, chunks: 4000, gap_ms: 1 }])}`);
  await log.getByText("Turn completed").waitFor({ timeout: 60_000 });
  const took = Date.now() - began;
  const gaps = await page.evaluate(() => window.gaps.toSorted((one, other) => one - other));
  console.log(`4,000 pieces in ${took} ms; frames: median ${gaps[gaps.length >> 1].toFixed(1)} ms, p95 ${gaps[Math.floor(gaps.length * 0.95)].toFixed(1)} ms, worst ${gaps[gaps.length - 1].toFixed(0)} ms`);
  const shape = () => log.locator(".row-text").first().evaluate((row) => row.innerHTML);
  const settled = async () => {
    let last = null;
    return until("the colours are there", async () => {
      const before = last;
      last = await shape();
      return last === before && last.includes("hljs-keyword") ? last : null;
    });
  };
  const streamed = await settled();
  await page.reload();
  await log.getByText("Turn completed").waitFor();
  // Only its end was read; the beginning is read when somebody goes there.
  assert.ok((await shape()).length < streamed.length, "all of a long answer was read at once");
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("g");
  await until("the whole answer", async () => (await shape()).length >= streamed.length);
  assert.equal(await settled(), streamed, "streamed in pieces and read whole are the same");
  const words = (await events(id)).filter((event) => event.type === "text_delta").map((event) => event.text).join("");
  assert.equal(words, text);

  const many = await session("long");
  await obey("session", "send", many, `needle-of-the-beginning SCRIPT: ${JSON.stringify([{ flood: { lines: EVENTS, text: "line of a flood\n\n" } }, { tool: "Bash", input: { command: "echo end" }, result: "ok" }, { text: "the end of it" }])}`);
  await page.addInitScript(() => {
    new MutationObserver(() => {
      const log = document.querySelector("[role=log]");
      if (window.shownAt === undefined && log?.textContent.includes("the end of it")) requestAnimationFrame(() => (window.shownAt ??= performance.now()));
    }).observe(document, { childList: true, subtree: true, characterData: true });
  });
  await page.goto(`${BASE}/s/${many}`);
  await page.waitForFunction(() => window.shownAt !== undefined);
  console.log(`a session of ${EVENTS} events shows its newest rows ${Math.round(await page.evaluate(() => window.shownAt))} ms after the navigation began`);
  await log.getByText("the end of it").last().waitFor();
  const built = await log.evaluate((box) => box.querySelectorAll("*").length);
  assert.ok(built < 20_000, `${built} elements: what nobody sees is built`);

  // A word of the first events is found by search, and its link opens there; the end is one press away.
  await page.goto(`${BASE}/search?q=needle-of-the-beginning`);
  await page.getByRole("list", { name: "Hits" }).getByRole("link").last().click();
  const jumped = Date.now();
  await log.locator(".row-prompt.marked").getByText("needle-of-the-beginning").waitFor();
  console.log(`the beginning of it is shown after ${Date.now() - jumped} ms`);
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  console.log(`heap with all ${EVENTS} events read: ${Math.round(heap / 1e6)} MB`);
  // By the wheel through what was read, there and back.
  for (const [words, direction] of [["down", 1], ["up", -1]]) {
    const fps = await log.evaluate((box, direction) => new Promise((resolve) => {
      const began = performance.now();
      let frames = 0;
      const step = () => {
        box.scrollTop += direction * 400;
        frames += 1;
        if (performance.now() - began < 1_500) requestAnimationFrame(step);
        else resolve(Math.round((frames * 1_000) / (performance.now() - began)));
      };
      requestAnimationFrame(step);
    }), direction);
    console.log(`scrolls ${words} at ${fps} frames a second`);
  }
  await page.getByRole("button", { name: /To the end|new/ }).click();
  await log.getByText("the end of it").last().waitFor();
});
