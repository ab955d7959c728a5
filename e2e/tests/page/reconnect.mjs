// The daemon is killed and started again while a session streams, and the network is cut: the state is told, every row of the
// journal is there once, and the reader's draft stays.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const rows = (page) => page.getByRole("log").evaluate((box) => [...box.querySelectorAll(".row")].map((row) => Number(row.dataset.seq)));

await scenario(async ({ page, context, assert }) => {
  const id = await session("survivor", [{ text: "first words" }]);
  await signIn(page, `/s/${id}`);
  await page.getByRole("log").getByText("first words").last().waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill("a draft");
  for (let round = 0; round < 3; round += 1) {
    await context.setOffline(true);
    await page.evaluate(() => window.dispatchEvent(new Event("offline")));
    const sent = obey("session", "send", id, `round ${round} SCRIPT: ${JSON.stringify([{ text: `words of round ${round} `.repeat(20), chunks: 20 }])}`);
    await sent;
    await context.setOffline(false);
    await page.reload();
    await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
    await page.getByRole("log").getByText(`words of round ${round}`).last().waitFor();
  }
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "a draft");
  const shown = await rows(page);
  assert.deepEqual(shown, [...new Set(shown)].toSorted((one, other) => one - other), "rows once and in order");
  const prompts = (await events(id)).filter((event) => event.type === "turn_started").length;
  assert.equal(await page.locator(".row-prompt").count(), prompts);

  // The daemon dies; the page says so; the next daemon on the same port goes on.
  process.kill(Number(process.env.PAGE_DAEMON_PID), "SIGKILL");
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: /reconnecting|not reachable/ }).waitFor();
  const port = new URL(BASE).port;
  await obey("serve", "--detach", "--listen", `127.0.0.1:${port}`);
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
  await until("the session is back", async () => (await obey("session", "list", "--json")).includes(id));
  await obey("session", "send", id, 'after SCRIPT: [{"text":"after the crash"}]');
  await page.getByRole("log").getByText("after the crash").last().waitFor();
  const all = await rows(page);
  assert.deepEqual(all, [...new Set(all)].toSorted((one, other) => one - other));
  await obey("stop");
});
