// Ten agents write at once while one is looked at: the page stays smooth and its text is the journal's. Tabs that nobody looks at let
// go of their streams, but one that listens for all; what is looked at answers at once. Figures are printed, never judged.
import { readFileSync } from "node:fs";
import http from "node:http";
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

const CHUNKS = Number(process.env.PAGE_CHUNKS ?? 300);

await scenario(async ({ page, context, assert }) => {
  const ids = [];
  for (let at = 0; at < 10; at += 1) ids.push(await session(`busy${at}`));
  await signIn(page, `/s/${ids[0]}`);
  await page.evaluate(() => {
    window.gaps = [];
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ["longtask"] });
    let last = performance.now();
    const step = (now) => {
      window.gaps.push(now - last);
      last = now;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  const text = "Some *words* of an agent that never rests, with `code`.\n\n".repeat(CHUNKS / 10);
  for (const id of ids) await obey("session", "send", id, "--no-wait", `go SCRIPT: ${JSON.stringify([{ text, chunks: CHUNKS, gap_ms: 10 }, { text: "the end" }])}`);
  // Somebody types meanwhile: from the key to the frame that has its letter.
  await page.getByRole("textbox", { name: "Message" }).evaluate((field) => {
    window.keys = [];
    field.addEventListener("keydown", ({ timeStamp }) => requestAnimationFrame(() => setTimeout(() => window.keys.push(performance.now() - timeStamp))));
  });
  await page.getByRole("textbox", { name: "Message" }).pressSequentially("a draft that is written while ten agents write");
  const keys = (await page.evaluate(() => window.keys)).toSorted((one, other) => one - other);
  console.log(`key to letter: median ${keys[keys.length >> 1].toFixed(0)} ms, p95 ${keys[Math.floor(keys.length * 0.95)].toFixed(0)} ms`);
  await page.getByRole("textbox", { name: "Message" }).fill("");
  await page.getByRole("log").getByText("Turn completed").waitFor({ timeout: 90_000 });
  const { gaps, tasks } = await page.evaluate(() => ({ gaps: window.gaps.toSorted((one, other) => one - other), tasks: window.tasks }));
  const frames = gaps.length / (gaps.reduce((sum, gap) => sum + gap, 0) / 1_000);
  console.log(`ten agents: ${frames.toFixed(0)} frames a second, p95 ${gaps[Math.floor(gaps.length * 0.95)].toFixed(1)} ms, worst ${gaps.at(-1).toFixed(0)} ms, ${tasks.length} tasks over 50 ms`);
  await until("all have ended", async () => (await Promise.all(ids.map(events))).every((all) => all.some((event) => event.type === "turn_ended")));
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("g");
  const words = (await events(ids[0])).filter((event) => event.type === "text_delta").map((event) => event.text).join("");
  assert.equal(words, `${text}the end`);
  const paragraphs = () => page.getByRole("log").locator(".row-text p").allInnerTexts();
  await until("every paragraph", async () => (await paragraphs()).length === CHUNKS / 10 + 1);
  for (const one of (await paragraphs()).slice(0, -1)) assert.equal(one, "Some words of an agent that never rests, with code.");

  // How soon what an agent writes and asks is on the screen; both clocks are this machine's.
  const ticker = await session("ticker");
  await page.goto(`${BASE}/s/${ticker}`);
  await page.getByRole("status", { name: "Connection" }).getByText("live").waitFor();
  await page.evaluate(() => {
    window.seen = {};
    const look = () => {
      for (const [name] of [...document.querySelectorAll(".row-text")].map((row) => row.textContent).join().matchAll(/tick\d+;/g)) window.seen[name] ??= Date.now();
      if (document.querySelector(".card .buttons")) window.seen.card ??= Date.now();
    };
    new MutationObserver(look).observe(document.querySelector("[role=log]"), { childList: true, subtree: true, characterData: true });
  });
  const TICKS = 40;
  const ticks = (from) => Array.from({ length: TICKS }, (_, at) => ({ text: `tick${from + at}; `, gap_ms: 10, chunks: 1 }));
  /** How long the ticks from a number on took from the journal to the screen; several may be one event. */
  const delays = async (from) => {
    const [seen, journal] = [await page.evaluate(() => window.seen), await events(ticker)];
    const all = ticks(from).map(({ text }) => seen[text.trim()] - Date.parse(journal.find((event) => event.type === "text_delta" && event.text.includes(text))?.at));
    return all.filter(Number.isFinite).toSorted((one, other) => one - other);
  };
  const told = (all) => `${all.length} pieces, median ${all[all.length >> 1]} ms, worst ${all.at(-1)} ms`;
  await obey("session", "send", ticker, "--no-wait", `go SCRIPT: ${JSON.stringify([{ text: "a ".repeat(40), chunks: 40, gap_ms: 15 }, ...ticks(0), { tool: "Bash", input: { command: "ls" }, ask: true, result: "ok" }])}`);
  await page.getByRole("button", { name: "Allow once" }).waitFor();
  const seen = await page.evaluate(() => window.seen);
  const journal = await events(ticker);
  const asked = seen.card - Date.parse(journal.find((event) => event.type === "request_opened").at);
  console.log(`journal to screen: ${told(await delays(0))}; a request after ${asked} ms`);
  await page.locator("button:enabled", { hasText: "Allow once" }).click();

  // A hundred pages that follow a session and the overview cost the daemon little.
  const resident = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process.env.PAGE_DAEMON_PID}/status`, "utf8"))[1]) / 1024;
  const before = resident();
  const key = await page.evaluate(() => sessionStorage.getItem("obey-key"));
  const readers = await Promise.all(Array.from({ length: 100 }, () => new Promise((resolve, reject) => {
    const request = http.request(`${BASE}/api/live`, { method: "POST", agent: false, headers: { "content-type": "application/json", authorization: `Bearer ${key}` } }, (answer) => {
      let text = "";
      answer.on("data", (part) => {
        text += part;
        if (text.includes("event: caught_up") && text.includes("event: overview")) resolve(request);
      });
    });
    request.on("error", reject);
    request.end(JSON.stringify({ sessions: { [ticker]: { tail: 500 } }, overview: 0 }));
  })));
  console.log(`a hundred more pages: the daemon grows by ${(resident() - before).toFixed(1)} MiB`);
  await page.getByRole("log").getByText("Turn completed").waitFor();
  await obey("session", "send", ticker, `again SCRIPT: ${JSON.stringify(ticks(TICKS))}`);
  await page.getByRole("log").getByText("Turn completed").nth(1).waitFor();
  console.log(`journal to screen beside them: ${told(await delays(TICKS))}`);
  for (const reader of readers) {
    reader.on("error", () => {});
    reader.destroy();
  }

  // More tabs, all hidden but this one.
  const tabs = [];
  for (let at = 0; at < 4; at += 1) {
    const tab = await context.newPage();
    await tab.clock.install();
    await tab.goto(`${BASE}/s/${ids[at]}`);
    await tab.clock.runFor(1_000);
    await tab.getByRole("log").getByText("the end", { exact: true }).waitFor();
    await tab.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => window.isHidden ?? true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await tab.clock.runFor(11_000);
    tabs.push(tab);
  }
  // One of them listens for all; the others rest.
  await until("three rest", async () => {
    const words = await Promise.all(tabs.map((tab) => tab.getByRole("status", { name: "Connection" }).innerText()));
    return words.filter((one) => one === "paused while hidden").length === 3;
  });
  await session("needy", [{ tool: "Bash", input: { command: "ls" }, ask: true, result: "ok" }]);
  await until("a hidden tab counts who needs somebody", async () => {
    for (const tab of tabs) await tab.clock.runFor(200);
    return (await Promise.all(tabs.map((tab) => tab.title()))).some((title) => title.startsWith("(1) "));
  });
  // Looked at again: it has everything.
  const last = tabs[3];
  await last.evaluate(() => {
    window.isHidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until("it is live", async () => {
    await last.clock.runFor(200);
    return (await last.getByRole("status", { name: "Connection" }).innerText()) === "live";
  });
  await until("it counts", async () => {
    await last.clock.runFor(200);
    return (await last.title()).startsWith("(1) ");
  });
});
