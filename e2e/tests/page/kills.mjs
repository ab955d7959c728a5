// The daemon is killed again and again while an agent writes, and the page is never loaded anew: it says that it reconnects, goes on
// by itself, and at the end has every row of the journal once and in order. PAGE_KILLS=100 does it a hundred times.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const KILLS = Number(process.env.PAGE_KILLS ?? 4);
const PIECES = 120;

const rows = (page) => page.getByRole("log").evaluate((box) => [...box.querySelectorAll(".row")].map((row) => `${row.dataset.seq} ${row.className} ${row.innerText}`));

await scenario(async ({ page, context, assert }) => {
  const id = await session("killed");
  await signIn(page, `/s/${id}`);
  const state = page.getByRole("status", { name: "Connection" });
  const port = new URL(BASE).port;
  // Words that are all different: one that is lost or doubled is seen.
  const text = Array.from({ length: KILLS * PIECES }, (_, at) => `w${at}${at % 20 === 19 ? "\n\n" : " "}`).join("");
  await obey("session", "send", id, "--no-wait", `go SCRIPT: ${JSON.stringify([{ text, chunks: KILLS * PIECES, gap_ms: 8 }, { tool: "Bash", input: { command: "echo end" }, result: "ok" }, { text: "the very end" }])}`);
  let told = 0;
  let latest = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const seen = () => page.getByRole("log").evaluate((log) => Number(/w(\d+)\D*$/.exec(log.innerText)?.[1] ?? -1));
    const before = await seen();
    await until("more words", async () => (await seen()) > before || (await page.getByText("the very end").count()) > 0);
    const { pid } = JSON.parse(await obey("status", "--json")).daemon;
    process.kill(pid, "SIGKILL");
    const killed = Date.now();
    await state.filter({ hasText: /reconnecting|not reachable/ }).waitFor();
    latest = Math.max(latest, Date.now() - killed);
    told += 1;
    await obey("serve", "--detach", "--listen", `127.0.0.1:${port}`);
    await state.filter({ hasText: "live" }).waitFor();
  }
  assert.equal(told, KILLS);
  const log = page.getByRole("log");
  await log.getByText("the very end").last().waitFor();
  await log.getByText("Turn completed").waitFor();
  console.log(`${KILLS} kills; the page said so after at most ${latest} ms`);
  const said = (await events(id)).filter((event) => event.type === "text_delta").map((event) => event.text).join("");
  assert.equal(said, `${text}the very end`, "the journal");
  // All rows of this page are those of one that was opened now, and their words are the journal's.
  const fresh = await context.newPage();
  await fresh.goto(`${BASE}/s/${id}`);
  await fresh.getByRole("log").getByText("Turn completed").waitFor();
  for (const one of [page, fresh]) {
    await one.getByRole("heading", { level: 1 }).click();
    await one.keyboard.press("g");
  }
  await until("the same rows", async () => (await rows(page)).join() === (await rows(fresh)).join()).catch(async (error) => assert.deepEqual(await rows(page), await rows(fresh), String(error)));
  // A long text is several rows, and one may end within a word.
  const words = (await log.locator(".row-text").allInnerTexts()).join("").match(/w\d+/g);
  assert.deepEqual(words, Array.from({ length: KILLS * PIECES }, (_, at) => `w${at}`));
  await obey("stop");
});
