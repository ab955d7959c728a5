// A real agent: what its sub-agent does is nested, can be folded, and never mixes with its own words; its commands are completed, and
// one that it does not have is sent as text.
import { accessible, events, scenario, signIn, until } from "./drive.mjs";

const id = process.env.PAGE_SESSION;

await scenario(async ({ page, assert }) => {
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  const nested = log.getByRole("article", { name: "Sub-agent" });
  await nested.getByRole("button", { name: "Allow once" }).click();
  await nested.getByText(/^1 call: ran echo sub/).waitFor();
  await log.getByText("main done", { exact: true }).first().waitFor();
  for (const text of await nested.allInnerTexts()) assert.ok(!text.includes("main done"), text);
  await accessible(page, "a sub-agent");
  const head = nested.getByRole("button", { name: /Sub-agent:/ }).first();
  assert.equal(await head.getAttribute("aria-expanded"), "true");
  await head.click();
  await nested.getByText(/^1 call: ran echo sub/).waitFor({ state: "hidden" });
  await nested.getByText("sub done", { exact: true }).waitFor({ state: "hidden" });
  assert.equal(await head.getAttribute("aria-expanded"), "false");
  await log.getByText("main done", { exact: true }).first().waitFor();
  await head.click();
  await nested.getByText(/^1 call: ran echo sub/).waitFor();

  const message = page.getByRole("textbox", { name: "Message" });
  const box = page.getByRole("listbox", { name: "Commands of the agent" });
  await message.pressSequentially("/comp");
  await box.getByRole("option", { name: "/compact", exact: true }).waitFor();
  await message.press("Enter");
  assert.equal(await message.inputValue(), "/compact ");
  assert.equal((await events(id)).filter((event) => event.prompt === "/compact").length, 0, "completing sends nothing");
  const before = (await events(id)).filter((event) => event.type === "turn_started" && event.origin !== "agent").length;
  await message.fill("/no-such-command of any agent");
  await page.getByRole("button", { name: /^(Send|Queue)$/ }).click();
  await until("it is sent as text", async () => {
    const prompts = (await events(id)).filter((event) => event.type === "turn_started" && event.origin !== "agent");
    return prompts.length > before && prompts.at(-1).prompt === "/no-such-command of any agent";
  });
});
