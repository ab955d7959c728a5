// Without a key the page shows everything and says how to act; nothing on it acts; a revoked page is signed out within a second and
// still looks; a code works once.
import { BASE, events, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(async ({ page, context, assert }) => {
  const id = await session("watched", [{ tool: "Bash", input: { command: "touch x" }, ask: true, result: "ran" }]);
  await page.goto(`${BASE}/s/${id}`);
  await page.getByRole("log").getByText("touch x").first().waitFor();
  await page.getByText("Looking only.").waitFor();
  await page.getByText("This page may only look.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Allow once", exact: true }).count(), 0);
  assert.ok(await page.getByRole("textbox", { name: "Message" }).isDisabled());
  // Whatever a script in this page sends, the daemon refuses.
  const request = (await events(id)).find((event) => event.type === "request_opened").request;
  const refused = await page.evaluate(async ({ session_id, request_id }) => {
    const calls = {
      "/obey.v1.RequestService/AnswerPermission": { session_id, request_id, decision: "DECISION_ALLOW_ONCE" },
      "/obey.v1.TurnService/Prompt": { session_id, text: "x" },
      "/obey.local.v1.LocalDaemonService/Shutdown": {},
      "/api/v1/safeexec/bash": { cmd: "touch y", session_id: "sess_p" },
    };
    const told = {};
    for (const [path, body] of Object.entries(calls)) {
      const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      told[path] = [response.status, (await response.json()).code];
    }
    const web = await fetch("/obey.local.v1.LocalDaemonService/Shutdown", { method: "POST", headers: { "content-type": "application/grpc-web+proto" }, body: new Uint8Array(5) });
    told.grpcWeb = web.headers.get("grpc-status") ?? new TextDecoder().decode(await web.arrayBuffer());
    return told;
  }, { session_id: id, request_id: request });
  for (const [path, outcome] of Object.entries(refused)) {
    if (path === "grpcWeb") assert.ok(String(outcome).includes("7"), `${outcome}`);
    else assert.deepEqual(outcome, [403, "OBEY-1002"], path);
  }
  assert.equal((await events(id)).filter((event) => event.type === "request_settled").length, 0);

  // A code is good for one page.
  const { url } = JSON.parse(await obey("web", "--json"));
  await page.goto(url);
  await page.waitForFunction(() => sessionStorage.getItem("obey-key") !== null);
  const second = await context.newPage();
  await second.goto(url);
  await second.getByRole("alert").filter({ hasText: "obey web" }).waitFor();
  assert.equal(await second.evaluate(() => location.hash), "");
  await second.close();

  // Revoked: signed out at once, and still looking.
  await page.goto(`${BASE}/s/${id}`);
  await page.getByRole("button", { name: "Allow once", exact: true }).waitFor();
  const device = JSON.parse(await obey("device", "list", "--json")).devices.find((one) => one.proof === "page");
  await obey("device", "revoke", device.name);
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "signed out" }).waitFor({ timeout: 2_000 });
  assert.equal(await page.getByRole("button", { name: "Allow once", exact: true }).count(), 0);
  await page.reload();
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
  await page.getByRole("log").getByText("touch x").first().waitFor();
  // The settings list devices and take a key back; pressing once only asks.
  await signIn(page, "/settings");
  await page.getByRole("list", { name: "Devices" }).getByRole("listitem").first().waitFor();
  await page.getByRole("button", { name: /^Revoke chrome-linux/ }).first().click();
  await page.getByRole("button", { name: /press again/ }).click();
  await page.getByRole("status", { name: "Connection" }).filter({ hasText: "signed out" }).waitFor();
});
