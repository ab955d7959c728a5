// The pictures of the page: a session that needs somebody, the inbox, the review and an empty list, on a desk, on a phone and on a
// wide screen, dark and light. They are compared with the pictures that are kept, with room for another font; PAGE_UPDATE=1 writes
// those anew. Two of them are in the README. Names of folders and times are the same in every run, and the script behind a prompt,
// which only the agent of tests reads, is left out.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { BASE, accessible, events, obey, scenario, session, signIn } from "./drive.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const README = { "session-desk-dark": "page-desk.png", "session-phone-dark": "page-phone.png" };
const images = join(here, "../../../docs/images");
const goldens = join(here, "pictures");
/** Share of pixels that may differ clearly: another font moves letters, a broken layout moves everything. */
const DIFFERENT_MAX = 0.06;

await scenario(async ({ page, context, assert }) => {
  await session("docs-pass", [{ question: { text: "Keep the old anchors?", options: ["Yes", "No"] } }]);
  await session("migrate-db", [{ crash: 3 }]);
  await session("cart-tests", [{ text: "Running the tests of the cart." }, { hang: true }]);
  const prompt = "Fix the failing test in cart_test.rs and push the branch.";
  const script = [
    { todo: ["find the failing case", "correct the order", "push the branch"] },
    { text: "The total was computed before the discount was applied. I changed the order and added a case for a *zero* quantity.\n\n```rust\nlet net = apply(sum(items), discount);\n```" },
    { tool: "Read", input: { file_path: "src/cart.rs" }, result: "ok" },
    { tool: "Bash", input: { command: "cargo test -p cart" }, result: "ok" },
    { tool: "Edit", input: { file_path: "src/cart.rs", old_string: "let total = sum(items);\napply(total, discount)", new_string: "let net = apply(sum(items), discount);\nnet.max(Money::ZERO)" }, result: "ok" },
    { usage: { input_tokens: 120_000, output_tokens: 4_000, cost_micro_usd: 1_840_000 } },
    { tool: "Bash", input: { command: "git push --set-upstream origin fix/cart" }, ask: true, result: "ok" },
  ];
  const out = await obey("session", "create", "-c", "project", "--provider", "scripted", "--name", "fixer", "--message", `${prompt} SCRIPT: ${JSON.stringify(script)}`);
  const id = /^Session: (\S+)/m.exec(out)[1];
  await signIn(page);
  await page.getByRole("button", { name: "Allow once" }).first().waitFor();
  // Seven minutes and a half later, for everything in the pictures.
  const last = Math.max(...(await events(id)).map((event) => Date.parse(event.at)));
  await context.clock.setFixedTime(last + 450_000);

  async function shoot(name, path, { width, height = 900, scheme }, ready) {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
    await page.goto(BASE + path);
    await ready();
    await page.getByRole("status", { name: "Connection" }).getByText("live").waitFor({ state: "attached" });
    await page.evaluate(() => document.fonts.ready);
    await page.evaluate(({ folder, words }) => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        if (node.data.includes(folder)) node.data = node.data.replaceAll(folder, "~/shop");
        if (node.data.startsWith(words) && node.data.includes("SCRIPT:")) node.data = words;
      }
      for (const host of document.querySelectorAll(".status .dim")) host.textContent = "web/chrome-linux · desk";
    }, { folder: process.cwd(), words: prompt });
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    const bytes = await page.screenshot();
    if (process.env.PAGE_PICTURES) writeFileSync(join(process.env.PAGE_PICTURES, `${name}.png`), bytes);
    const kept = README[name] ? join(images, README[name]) : join(goldens, `${name}.png`);
    if (process.env.PAGE_UPDATE) {
      mkdirSync(dirname(kept), { recursive: true });
      writeFileSync(kept, bytes);
    }
    assert.ok(existsSync(kept), `${kept} is missing; PAGE_UPDATE=1 writes it`);
    const share = await difference(bytes, readFileSync(kept));
    assert.ok(share <= DIFFERENT_MAX, `${name}: ${(share * 100).toFixed(1)} % of the picture differs from ${kept}`);
  }

  /** The share of pixels that differ clearly, looked at through a coarse grid: letters may be a little elsewhere. */
  async function difference(one, other) {
    const compare = await context.newPage();
    const share = await compare.evaluate(async (sources) => {
      const [a, b] = await Promise.all(sources.map(async (source) => {
        const picture = await createImageBitmap(await (await fetch(source)).blob());
        const canvas = new OffscreenCanvas(Math.ceil(picture.width / 4), Math.ceil(picture.height / 4));
        const pen = canvas.getContext("2d");
        pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
        return pen.getImageData(0, 0, canvas.width, canvas.height);
      }));
      if (a.width !== b.width || a.height !== b.height) return 1;
      let different = 0;
      for (let at = 0; at < a.data.length; at += 4) {
        const distance = Math.abs(a.data[at] - b.data[at]) + Math.abs(a.data[at + 1] - b.data[at + 1]) + Math.abs(a.data[at + 2] - b.data[at + 2]);
        if (distance > 96) different += 1;
      }
      return different / (a.data.length / 4);
    }, [one, other].map((bytes) => `data:image/png;base64,${bytes.toString("base64")}`));
    await compare.close();
    return share;
  }

  const card = async () => {
    await page.locator("button:enabled", { hasText: "Allow once" }).first().waitFor();
    if ((await page.locator(".code").count()) > 0) await page.locator(".hljs-keyword").first().waitFor();
  };
  const sizes = { desk: 1280, phone: 390, wide: 2560 };
  for (const [name, width, scheme] of [["desk", 1280, "dark"], ["desk", 1280, "light"], ["phone", 390, "dark"], ["phone", 390, "light"], ["wide", 2560, "dark"]]) {
    await shoot(`session-${name}-${scheme}`, `/s/${id}`, { width, height: name === "phone" ? 844 : name === "wide" ? 1300 : 860, scheme }, card);
  }
  await shoot("inbox-desk-dark", "/", { width: sizes.desk, scheme: "dark" }, card);
  await shoot("inbox-phone-light", "/", { width: sizes.phone, height: 844, scheme: "light" }, card);
  await shoot("inbox-wide-light", "/", { width: sizes.wide, height: 1300, scheme: "light" }, async () => {
    await card();
    await page.getByRole("region", { name: "Failed" }).getByRole("link", { name: /migrate-db/ }).waitFor();
  });
  await shoot("new-desk-light", "/new", { width: sizes.desk, scheme: "light" }, () => page.getByRole("heading", { level: 1, name: "New session" }).waitFor());
  await accessible(page, "a new session");
});
