// Agent text with scripts, handlers, wicked links, remote images, a line of a megabyte, an unclosed fence and characters that reorder
// others: nothing runs, nothing is loaded, the page stays usable.
import { BASE, scenario, session, signIn, until } from "./drive.mjs";

const TEXT = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror=\"window.hacked = 2\">",
  "[click](javascript:window.hacked=3) [data](data:text/html,<script>alert(1)</script>) [file](file:///etc/passwd)",
  "![pixel](https://evil.example/pixel.png) <svg onload=\"window.hacked=4\"></svg>",
  "[good](https://example.com/a) <https://auto.example>",
  "<a href=\"javascript:window.hacked=5\">x</a>",
  "```html\n<script>window.hacked = 6</script>\n```",
  "an unclosed fence:\n\n```js\nwindow.hacked = 7",
].join("\n\n");

await scenario(async ({ page, assert }) => {
  const id = await session("wicked", [
    { text: TEXT, chunks: 60 },
    { tool: "<img src=x onerror=window.hacked=8>", input: { command: "echo \u0007\u001b]0;owned\u0007 <b>hi</b>" }, result: "<script>window.hacked=9</script>\u001b[31mred\u001b]52;c;AAAA\u0007" },
    { long_line: 1_000_000 },
    { text: "after the long line" },
  ]);
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  await log.getByText("after the long line").last().waitFor();
  // The beginning is far above, and built when somebody goes there.
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("g");
  await log.getByText("1 call", { exact: false }).first().click();
  await log.getByText("Input").first().click();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await log.locator("script, img, svg, iframe, object, [onerror], [onload]").count(), 0);
  const links = await log.locator("a").evaluateAll((all) => all.map((one) => one.getAttribute("href")));
  for (const href of links) assert.match(href, /^https:\/\//, href);
  assert.ok(links.includes("https://example.com/a"));
  const rels = await log.locator("a").evaluateAll((all) => all.map((one) => `${one.rel} ${one.target}`));
  for (const rel of rels) assert.equal(rel, "noopener noreferrer _blank");
  // It still reacts: a frame takes less than a second though a megabyte is on the screen.
  const gap = await page.evaluate(() => new Promise((resolve) => {
    let last = performance.now();
    let worst = 0;
    let left = 30;
    const step = (now) => {
      worst = Math.max(worst, now - last);
      last = now;
      if (--left > 0) requestAnimationFrame(step);
      else resolve(worst);
    };
    requestAnimationFrame(step);
  }));
  console.log(`worst frame with a line of 1 MB on the screen: ${Math.round(gap)} ms`);
  await page.goto(`${BASE}/`);
  await until("the inbox", async () => (await page.getByRole("heading", { name: "Inbox" }).count()) === 1);
});
