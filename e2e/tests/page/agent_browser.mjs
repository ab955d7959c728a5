// A browser that an agent started: whatever it holds, a code that it saw or the key of a page, the daemon gives it the agent's own
// session and nothing else.
import { BASE, scenario } from "./drive.mjs";

const { PAGE_CODE: code, PAGE_KEY: key, PAGE_OTHER: other } = process.env;

await scenario(async ({ page, assert }) => {
  await page.goto(`${BASE}/#k=${code}`);
  await page.waitForFunction(() => location.hash === "");
  const call = (path, body, bearer) =>
    page.evaluate(
      async ([path, body, bearer]) => {
        const headers = { "content-type": "application/json", ...(bearer === "" ? {} : { authorization: `Bearer ${bearer}` }) };
        const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
        return `${answer.status} ${await answer.text()}`;
      },
      [path, body, bearer],
    );
  for (const bearer of ["", key]) {
    for (const [path, body] of [
      ["/obey.v1.TurnService/Prompt", { session_id: other, text: "x" }],
      ["/obey.v1.RequestService/ListRequests", {}],
      ["/obey.v1.OverviewService/List", {}],
      ["/obey.v1.FileService/Find", { session_id: other, text: "" }],
      ["/obey.v1.PlanService/List", { parent_session_id: other }],
      ["/obey.v1.PageService/CreateCode", {}],
      ["/obey.v1.DeviceService/ListDevices", {}],
      ["/api/live", { sessions: { [other]: { tail: 10 } }, overview: 0 }],
    ]) {
      const told = await call(path, body, bearer);
      assert.match(told, /^40[13] .*OBEY-100[12]/s, `${path} ${told}`);
    }
    const events = await page.evaluate(async (id) => {
      const answer = await fetch(`/api/sessions/${id}/events`, { headers: { accept: "application/json" } });
      return `${answer.status} ${await answer.text()}`;
    }, other);
    assert.match(events, /^40[13] .*OBEY-100[12]/s, events);
  }
  assert.equal(await page.evaluate(() => sessionStorage.getItem("obey-key")), null, "the code gave it no key");
  assert.ok(!(await page.locator("body").innerText()).includes(other));
});
