// axe-core finds nothing on any screen, in both themes, at three widths, with panels open; the phone's width answers by touch-sized
// targets; everything is reachable by keyboard.
import { BASE, accessible, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(async ({ page, assert }) => {
  const id = await session("talker", [
    { todo: ["a", "b"] },
    { text: "# Head\n\nText with [a link](https://example.com), `code`, and\n\n```js\nlet x = 1;\n```\n\n- [x] done\n- [ ] not\n\n| a | b |\n|---|---|\n| 1 | 2 |" },
    { tool: "Edit", input: { file_path: "/a.rs", old_string: "one", new_string: "two" }, result: "ok" },
    { tool: "Bash", input: { command: "git push" }, ask: true, result: "ok" },
  ]);
  await session("failing", [{ crash: 3 }]);
  // The folder of a working tree has a long name without a space.
  const ask = [{ tool: "Bash", input: { command: "git push" }, ask: true, result: "ok" }];
  await obey("run", `go SCRIPT: ${JSON.stringify(ask)}`, "-p", "scripted", "-w", "tree", "--name", "treed", "--detach");
  await signIn(page);
  const paths = ["/", `/s/${id}`, `/s/${id}/review`, "/new", "/search?q=head", "/usage", "/audit", "/memory", "/settings", "/s/sess_00000000000000000000000000"];
  for (const [width, scheme] of [[320, "dark"], [390, "light"], [900, "dark"], [1440, "light"]]) {
    await page.setViewportSize({ width, height: 844 });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    for (const path of paths) {
      // The narrowest only must lose nothing.
      await page.goto(BASE + path);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      if (path === "/") await page.getByRole("button", { name: "Allow once" }).nth(1).waitFor();
      if (path === `/s/${id}`) await page.getByRole("button", { name: "Allow once", exact: true }).waitFor();
      if (width !== 320) await accessible(page, `${path} ${scheme} ${width}`);
      // On a phone the whole of it scrolls inside of the document.
      const wide = await page.evaluate(() => [document.documentElement, document.querySelector(".app")].some((one) => one.scrollWidth > one.clientWidth + 1));
      assert.ok(!wide, `${path} scrolls sideways at ${width}`);
      const small = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((one) => one.childNodes.length > 0 && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "") && parseFloat(getComputedStyle(one).fontSize) < 12).map((one) => one.className || one.tagName));
      assert.deepEqual(small, [], `${path}: text under 12 px`);
    }
  }
  // Panels over the page are dialogs; the focus comes back.
  await page.goto(`${BASE}/s/${id}`);
  await page.getByRole("button", { name: "Allow once", exact: true }).waitFor();
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Commands" });
  await palette.waitFor();
  await accessible(page, "the palette");
  await page.keyboard.type("settings");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Settings" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(page, "the keys");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await page.keyboard.press("}");
  await page.getByRole("heading", { level: 1, name: "talker" }).waitFor();
  await page.keyboard.press("N");
  await page.getByRole("heading", { level: 1, name: "New session" }).waitFor();

  // A session is started from the page alone.
  await page.getByRole("combobox", { name: "Agent" }).selectOption({ label: "Scripted (needs no model)" });
  await page.getByRole("textbox", { name: "Name" }).fill("made here");
  await page.getByRole("textbox", { name: "First message" }).fill('SCRIPT: [{"text":"born on the page"}]');
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("log").getByText("born on the page").last().waitFor();
  // What a screen reader is told: the end of a turn politely, a request at once, pieces of text never.
  assert.equal(await page.getByRole("log").getAttribute("aria-live"), "off");
  await page.getByRole("textbox", { name: "Message" }).fill(`more SCRIPT: ${JSON.stringify([{ tool: "Bash", input: { command: "ls" }, ask: true, result: "ok" }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("[aria-live=assertive]", { hasText: "made here needs you" }).waitFor({ state: "attached" });
  await page.locator("button:enabled", { hasText: "Allow once" }).click();
  await page.locator("[aria-live=polite]", { hasText: "Turn completed" }).waitFor({ state: "attached" });
  // What is not chosen any more is chosen again without typing: the last agent.
  await page.goto(`${BASE}/new`);
  await until("the last agent", async () => (await page.getByRole("combobox", { name: "Agent" }).inputValue()) === "scripted");
  assert.ok(await page.getByRole("textbox", { name: "First message" }).evaluate((field) => field === document.activeElement));
  await page.getByText("Agents that are not installed").click();
  await page.getByText("npm install -g @anthropic-ai/claude-code").waitFor();

  // The audit is there and intact.
  await page.goto(`${BASE}/audit`);
  await page.getByRole("cell", { name: "obey.local.v1.LocalDaemonService/CreateSession" }).first().waitFor();
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByRole("status").filter({ hasText: "Intact" }).waitFor();

  // On a phone: one column, large targets, answering works.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${BASE}/s/${id}`);
  const allow = page.getByRole("button", { name: "Allow once", exact: true });
  await allow.waitFor();
  const box = await allow.boundingBox();
  assert.ok(box.height >= 44, `a target of ${box.height} px`);
  await until("the answer", async () => {
    await allow.click({ timeout: 1_000 }).catch(() => {});
    return (await allow.count()) === 0;
  });
  await page.getByRole("log").getByText(/allowed once by web/).waitFor();
});
