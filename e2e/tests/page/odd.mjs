// What is not as it should be: a page of another version, a session that is removed while somebody looks, a browser without
// storage, a clock that jumps, an answer that never ends its line, an attachment that is too large, an answer that is lost on its way. Each is said in
// a sentence, and nothing is lost or sent twice.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(async ({ page, context, assert }) => {
  const id = await session("odd", [{ text: "first words" }]);

  // A tab that was opened before an upgrade says so once and goes on; it loads again only when asked.
  await page.route(`${BASE}/obey.v1.PageService/GetCaller`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), build: "0123456789abcdef" } });
  });
  await signIn(page, `/s/${id}`);
  await page.getByRole("alert").filter({ hasText: "The daemon was upgraded" }).waitFor();
  await page.getByRole("log").getByText("first words", { exact: true }).waitFor();
  await page.unroute(`${BASE}/obey.v1.PageService/GetCaller`);
  await page.getByRole("button", { name: "Reload the page" }).click();
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
  await page.getByRole("log").getByText("first words", { exact: true }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);

  // The answer of a prompt is lost on its way: it is sent again with the same key, and is one prompt.
  const message = page.getByRole("textbox", { name: "Message" });
  let lost = 0;
  await page.route(`${BASE}/obey.v1.TurnService/Prompt`, async (route) => {
    if (lost > 0) return route.fallback();
    lost += 1;
    await route.fetch();
    return route.abort("connectionreset");
  });
  await message.fill('only once SCRIPT: [{"text":"said once"}]');
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("alert").waitFor();
  assert.ok((await message.inputValue()).startsWith("only once"), "nothing typed is lost");
  await page.getByRole("log").getByText("said once", { exact: true }).waitFor();
  await until("the turn's end", async () => (await events(id)).filter((event) => event.type === "turn_ended").length === 2);
  await page.getByRole("button", { name: "Send" }).click();
  await until("it was accepted", async () => (await message.inputValue()) === "");
  assert.equal((await events(id)).filter((event) => event.prompt?.startsWith("only once")).length, 1);
  await page.unroute(`${BASE}/obey.v1.TurnService/Prompt`);

  // Files: too large is said before anything is sent; an image is shown, sent, and is in the journal.
  const chooser = page.locator('input[type="file"]');
  await chooser.setInputFiles({ name: "huge.bin", mimeType: "application/octet-stream", buffer: Buffer.alloc(11 * 1024 * 1024) });
  await page.getByRole("alert").filter({ hasText: "huge.bin is too large" }).waitFor();
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await chooser.setInputFiles({ name: "pixel.png", mimeType: "image/png", buffer: pixel });
  await page.getByRole("list", { name: "Files" }).locator("img").waitFor();
  await message.fill('look SCRIPT: [{"text":"seen"}]');
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log").getByText("pixel.png (image/png)").waitFor();
  const sent = (await events(id)).find((event) => event.prompt?.startsWith("look"));
  assert.equal(sent.attachments[0].content, pixel.toString("base64"));

  // Ten megabytes without the end of a line: cut or not, the page reacts and the next words are there.
  await message.fill(`long SCRIPT: ${JSON.stringify([{ text: "x".repeat(1_000_000) }, { long_line: 10_000_000 }, { text: "behind the long line" }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("log").getByText("behind the long line", { exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Commands" }).waitFor();
  await page.keyboard.press("Escape");
  await page.reload();
  await page.getByRole("log").getByText("behind the long line", { exact: true }).waitFor();

  // Removed while somebody looks: said, and gone from the list.
  await obey("session", "stop", id);
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await page.getByRole("button", { name: /press again/ }).click();
  await page.waitForURL(`${BASE}/`);
  await page.goto(`${BASE}/s/${id}`);
  await page.getByRole("alert").filter({ hasText: id }).waitFor();

  // A browser that keeps nothing: the page acts as long as it is open.
  const bare = await context.newPage();
  await bare.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get: () => { throw new DOMException("denied", "SecurityError"); } });
  });
  const other = await session("bare");
  const { url } = JSON.parse(await obey("web", "--json"));
  await bare.goto(url);
  await bare.getByRole("list", { name: "Inbox" }).getByRole("link", { name: /bare/ }).click();
  await bare.getByRole("textbox", { name: "Message" }).fill('hello SCRIPT: [{"text":"hello from nowhere"}]');
  await bare.getByRole("button", { name: "Send" }).click();
  await bare.getByRole("log").getByText("hello from nowhere", { exact: true }).waitFor();
  assert.ok((await events(other)).some((event) => event.type === "turn_started" && event.by.startsWith("web/")));

  // A clock that jumps, forward and back: ages stay ages, and the page goes on.
  const jumpy = await context.newPage();
  await jumpy.clock.install();
  await signIn(jumpy, `/s/${other}`);
  for (const [round, days] of [400, -400].entries()) {
    await jumpy.clock.setSystemTime(Date.now() + days * 86_400_000);
    await obey("session", "send", other, "--no-wait", `round ${round} SCRIPT: ${JSON.stringify([{ tool: "Bash", input: { command: `touch ${round}` }, ask: true, result: "ok" }, { text: `after jump ${round}` }])}`);
    await until("the answer", async () => {
      await jumpy.getByRole("button", { name: "Allow once" }).click({ timeout: 1_000 }).catch(() => {});
      return (await events(other)).some((event) => event.type === "text_delta" && event.text.includes(`after jump ${round}`));
    });
    await jumpy.getByRole("log").getByText(`after jump ${round}`, { exact: true }).waitFor();
    await jumpy.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
    const body = await jumpy.locator("body").innerText();
    assert.doesNotMatch(body, /NaN|Invalid Date|undefined|-\d+ ?(s|m|h|d)\b/);
    await until("the turn's end", async () => (await events(other)).filter((event) => event.type === "turn_ended").length === round + 2);
  }
});
