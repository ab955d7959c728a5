// The way between page and daemon breaks in every manner: the stream is cut at random bytes again and again, goes silent, and the
// machine sleeps. At the end the rows are those of the journal, each once and in order; the state is told; the reader's place
// and the card that waits are where they were.
import { BASE, obey, scenario, session, until } from "./drive.mjs";
import { proxy, random, signInAt } from "./proxy.mjs";

const seed = Number(process.env.PAGE_SEED ?? Date.now() % 100_000);
console.log(`seed ${seed}; PAGE_SEED=${seed} repeats it`);
const dice = random(seed);
const status = (page, words) => page.getByRole("status", { name: "Connection" }).filter({ hasText: words }).waitFor();

/** The rows as they are on the screen: number, kind and words. */
const rows = (page) => page.getByRole("log").evaluate((box) => [...box.querySelectorAll(".row")].map((row) => `${row.dataset.seq} ${row.className} ${row.innerText}`));

await scenario(
  async ({ page, context, assert }) => {
    // Most streams are cut within a frame or two, some in the middle of a letter of several bytes.
    const way = await proxy({ cutAt: (number) => (number > 60 ? undefined : 1 + Math.floor(dice() ** 3 * 9_000)) });
    const id = await session("cut");
    await signInAt(page, way.base, obey, `/s/${id}`);
    const part = "Wörter – “quoted” **bold** ✓ 日本語\n\n- one\n- two\n\n";
    for (let turn = 0; turn < 3; turn += 1) {
      await obey("session", "send", id, `turn ${turn} SCRIPT: ${JSON.stringify([{ text: part.repeat(20), chunks: 200, gap_ms: 2 }, { tool: "Bash", input: { command: `echo ${turn}` }, result: "ok\n".repeat(30) }, { text: `end of turn ${turn}` }])}`);
    }
    await page.getByRole("log").getByText("end of turn 2", { exact: true }).first().waitFor();
    await page.getByRole("log").getByText("Turn completed").nth(2).waitFor();
    console.log(`${way.streams()} streams`);
    const direct = await context.newPage();
    await direct.goto(`${BASE}/s/${id}`);
    await direct.getByRole("log").getByText("Turn completed").nth(2).waitFor();
    await direct.getByRole("heading", { level: 1 }).click();
    await direct.keyboard.press("g");
    await until("the same rows", async () => (await rows(page)).join() === (await rows(direct)).join()).catch(async (error) => {
      assert.deepEqual(await rows(page), await rows(direct), String(error));
    });
    await direct.close();

    // Silence: the machine slept for an hour, the connection is dead and looks open. It is live again without a reload, and the
    // reader is where they were.
    await page.clock.install();
    await page.goto(`${way.base}/s/${id}`);
    await page.clock.runFor(1_000);
    await status(page, "live");
    await page.getByRole("log").getByText("end of turn 2", { exact: true }).first().waitFor();
    way.isSilent = true;
    await obey("session", "send", id, '--no-wait', `meanwhile SCRIPT: ${JSON.stringify([{ tool: "Bash", input: { command: "touch it" }, ask: true, result: "ok" }])}`);
    way.isSilent = true;
    await page.clock.fastForward(3_600_000);
    way.isSilent = false;
    await until("live again", async () => {
      await page.clock.runFor(500);
      return (await page.getByRole("button", { name: "Allow once" }).count()) === 1;
    });
    await status(page, "live");
    const shown = (await rows(page)).map((row) => Number(row.split(" ")[0]));
    assert.deepEqual(shown, [...new Set(shown)].toSorted((one, other) => one - other), "rows once and in order");

    // What it reconnects to takes the connection and says nothing: it is given up, and the next attempt is live.
    way.isDeaf = true;
    way.cutAll();
    await page.clock.runFor(1_500);
    await status(page, /reconnecting|not reachable/);
    await page.clock.runFor(5_000);
    way.isDeaf = false;
    await until("live after a deaf answer", async () => {
      await page.clock.runFor(1_000);
      return (await page.getByRole("status", { name: "Connection" }).innerText()) === "live";
    });

    // Cut for good: said within two seconds, and the answer is not lost when it comes back.
    await page.clock.runFor(1_000);
    way.close();
    way.cutAll();
    await page.clock.runFor(1_500);
    await status(page, /reconnecting|not reachable/);
  },
  { mayRequest: (url) => url.startsWith("http://127.0.0.1:") },
);
