// A plan whose steps run as workers of a session: its steps are a tree with their states as they change, each with a link to the
// session that works on it; a plan that begins while somebody looks appears; it is cancelled with a second press.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BASE, accessible, obey, scenario, session, signIn, until } from "./drive.mjs";

const step = (id, script, more = {}) => ({ id, name: `step ${id}`, prompt: `go SCRIPT: ${JSON.stringify(script)}`, ...more });

await scenario(async ({ page, assert }) => {
  const lead = await session("lead");
  await signIn(page, `/s/${lead}`);
  const gate = join(process.cwd(), "gate");
  const plan = {
    strategy: "dag",
    steps: [step("read", [{ text: "looked around" }]), step("write", [{ wait_file: gate }, { text: "wrote it" }], { depends_on: ["read"] }), step("test", [{ text: "all green" }], { depends_on: ["write", "read"] })],
  };
  const file = join(process.cwd(), "../plan.json");
  writeFileSync(file, JSON.stringify(plan));
  const started = await obey("plan", "run", file, "--session", lead, "--detach", "--json");
  const id = /orch_[0-9A-Z]+/.exec(started)[0];

  const shown = page.getByRole("region", { name: `Steps of ${id}` });
  const item = (name) => shown.getByRole("listitem").filter({ has: page.locator(`:scope > :is(a, span), :scope`, { hasText: name }) });
  await shown.getByRole("heading", { name: "Steps · 1 of 3 · running" }).waitFor();
  await item("step read").first().filter({ hasText: "succeeded" }).waitFor();
  await item("step write").last().filter({ hasText: "running" }).waitFor();
  await accessible(page, "a plan that runs");
  // The tree: what waits is below what it waits for.
  const read = shown.locator("ul > li").first();
  assert.equal(await read.locator("ul > li", { hasText: "step write" }).first().locator("ul > li", { hasText: "step test" }).count(), 1);
  await shown.getByText("also after step read").waitFor();
  writeFileSync(gate, "");
  await shown.getByRole("heading", { name: "Steps · 3 of 3 · completed" }).waitFor();
  await shown.getByText("Result").first().click();
  await shown.getByText("looked around", { exact: true }).waitFor();

  // The worker's own session, and back.
  await shown.getByRole("link", { name: "step write" }).click();
  await page.getByRole("log").getByText("wrote it", { exact: true }).first().waitFor();
  await page.goto(`${BASE}/s/${lead}`);
  await shown.getByRole("heading", { name: "Steps · 3 of 3 · completed" }).waitFor();

  // Another one, which is cancelled.
  writeFileSync(file, JSON.stringify({ strategy: "parallel", steps: [step("stuck", [{ hang: true }])] }));
  await obey("plan", "run", file, "--session", lead, "--detach");
  await until("two plans", async () => (await page.getByRole("region", { name: /^Steps of/ }).count()) === 2);
  await page.getByRole("button", { name: "Cancel the plan" }).click();
  await page.getByRole("button", { name: "Cancel the plan: press again" }).click();
  await page.getByRole("heading", { name: "Steps · 1 of 1 · cancelled" }).waitFor();
  await page.getByText("cancelled from the page").first().waitFor();
});
