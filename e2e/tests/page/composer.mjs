// The message field: files of the session's folder are completed after `@`, by keys and by pointer, and never one outside of it; an
// input method is left alone.
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { accessible, events, scenario, session, signIn, until } from "./drive.mjs";

const FILES = Number(process.env.PAGE_FILES ?? 2_000);

await scenario(async ({ page, assert }) => {
  const folder = process.cwd();
  mkdirSync(join(folder, "src/deep"), { recursive: true });
  for (let at = 0; at < FILES; at += 1) writeFileSync(join(folder, `src/deep/module_${at}.rs`), "");
  writeFileSync(join(folder, "src/checkout_cart.rs"), "");
  writeFileSync(join(folder, "src/checkout_total.rs"), "");
  writeFileSync(join(folder, "../checkout_secret.rs"), "");
  symlinkSync(join(folder, "../checkout_secret.rs"), join(folder, "src/checkout_link.rs"));
  const id = await session("writer");
  await signIn(page, `/s/${id}`);
  const message = page.getByRole("textbox", { name: "Message" });
  const box = page.getByRole("listbox", { name: "Files of the folder" });
  const option = (name) => box.getByRole("option", { name, exact: true });

  await message.pressSequentially("look at @chcart");
  await option("@src/checkout_cart.rs").waitFor();
  await accessible(page, "the completion of files");
  await message.press("Tab");
  assert.equal(await message.inputValue(), "look at @src/checkout_cart.rs ");
  await box.waitFor({ state: "detached" });
  // One answer is lost on its way: it is asked for again, without another letter.
  let lost = 0;
  await page.route("**/obey.v1.FileService/Find", async (route) => {
    if (JSON.parse(route.request().postData()).text !== "checkout" || lost > 0) return route.fallback();
    lost += 1;
    return route.abort("connectionreset");
  });
  await message.pressSequentially("and @checkout");
  await until("both files", async () => (await box.getByRole("option").count()) === 2);
  for (const text of await box.getByRole("option").allInnerTexts()) assert.ok(!/secret|link/.test(text), text);
  const second = (await box.getByRole("option").allInnerTexts())[1];
  await message.press("ArrowDown");
  assert.equal(await box.getByRole("option", { selected: true }).innerText(), second);
  // The list closes by its key, and the field keeps the focus.
  await message.press("Escape");
  await box.waitFor({ state: "detached" });
  assert.ok(await message.evaluate((field) => document.activeElement === field));
  await message.press("_");
  await option(second).click();
  assert.equal(await message.inputValue(), `look at @src/checkout_cart.rs and ${second} `);
  // Neither an address nor a path out of the folder finds anything.
  for (const text of ["me@example.com", "@../checkout_secret", "@/etc/passwd"]) {
    const asked = text.startsWith("@") ? page.waitForResponse(/FileService\/Find/) : null;
    await message.fill(text);
    await message.press("End");
    if (asked) assert.deepEqual((await (await asked).json()).paths, [], text);
    await box.waitFor({ state: "detached" });
  }
  const took = await page.evaluate(async (session_id) => {
    const times = [];
    for (const text of ["m", "mo", "mod", "module_1"]) {
      const from = performance.now();
      await fetch("/obey.v1.FileService/Find", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ session_id, text, limit: 8 }) });
      times.push(Math.round(performance.now() - from));
    }
    return times;
  }, id);
  console.log(`${FILES} files: ${took.join(", ")} ms`);

  // A composition: Enter ends it and sends nothing, whatever the input method calls the key.
  await message.fill("にほん");
  await message.evaluate((field) => {
    field.dispatchEvent(new CompositionEvent("compositionstart", { bubbles: true }));
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }));
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Process", keyCode: 229, bubbles: true, cancelable: true }));
    field.dispatchEvent(new CompositionEvent("compositionend", { data: "日本", bubbles: true }));
  });
  assert.equal(await message.inputValue(), "にほん");
  await message.fill('@src/checkout_cart.rs SCRIPT: [{"text":"read it"}]');
  await message.press("Enter");
  await page.getByRole("log").getByText("read it", { exact: true }).waitFor();
  const prompts = (await events(id)).filter((event) => event.type === "turn_started").map((event) => event.prompt);
  assert.equal(prompts.length, 1);
  assert.ok(prompts[0].startsWith("@src/checkout_cart.rs "));
});
