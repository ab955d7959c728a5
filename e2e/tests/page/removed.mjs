// The events of a session's beginning are no longer kept: what there is is shown, and what is missing is said, once.
import { BASE, obey, scenario, signIn } from "./drive.mjs";

await scenario(async ({ page, assert }) => {
  const { sessions } = JSON.parse(await obey("session", "list", "--json"));
  const id = sessions.find((one) => one.agent_name === "old").id;
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  await log.getByText("just now", { exact: true }).waitFor();
  await page.getByText(/Events up to #\d+ are no longer kept/).waitFor();
  assert.equal(await log.getByText("long ago", { exact: true }).count(), 0);
  const first = Number(await log.locator(".row").first().getAttribute("data-seq"));
  assert.ok(first > 1, `the first row is of event ${first}`);
  // Going to the beginning, and to an event that is gone, shows what there is.
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("g");
  await page.goto(`${BASE}/s/${id}?at=2`);
  await log.getByText("just now", { exact: true }).waitFor();
  await page.getByText(/Events up to #\d+ are no longer kept/).waitFor();
});
