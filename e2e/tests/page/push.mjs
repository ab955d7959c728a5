// A browser subscribes to pushes and is told while no page is open: through a push service of this test's own, which opens what is
// sealed for the browser and checks who signed it. The notice has the session's name and no command; it is withdrawn when somebody
// answers elsewhere; a revoked key ends it. The page can be installed, and its shell opens while the daemon is away.
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, verify } from "node:crypto";
import http from "node:http";
import { BASE, obey, scenario, session, signIn, until } from "./drive.mjs";

const browser = createECDH("prime256v1");
browser.generateKeys();
const auth = Buffer.from("0123456789abcdef");

/** Opens a message as a browser does (RFC 8291). */
function opened(body) {
  const salt = body.subarray(0, 16);
  const length = body[20];
  const theirs = body.subarray(21, 21 + length);
  const record = body.subarray(21 + length);
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), browser.getPublicKey(), theirs]);
  const secret = Buffer.from(hkdfSync("sha256", browser.computeSecret(theirs), auth, info, 32));
  const key = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: aes128gcm\0", 16));
  const nonce = Buffer.from(hkdfSync("sha256", secret, salt, "Content-Encoding: nonce\0", 12));
  const cipher = createDecipheriv("aes-128-gcm", key, nonce);
  cipher.setAuthTag(record.subarray(-16));
  const plain = Buffer.concat([cipher.update(record.subarray(0, -16)), cipher.final()]);
  return plain.subarray(0, plain.lastIndexOf(2)).toString();
}

/** Whether a message was signed by the key that it names, for this service, for less than a day (RFC 8292). */
function isSigned(header, origin) {
  const [, token, key] = /^vapid t=([^,]+), k=(\S+)$/.exec(header);
  const [head, claims, signature] = token.split(".");
  const point = Buffer.from(key, "base64url");
  const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url") };
  const { aud, exp, sub } = JSON.parse(Buffer.from(claims, "base64url"));
  const left = exp - Date.now() / 1_000;
  const isRight = verify("sha256", Buffer.from(`${head}.${claims}`), { key: createPublicKey({ key: jwk, format: "jwk" }), dsaEncoding: "ieee-p1363" }, Buffer.from(signature, "base64url"));
  return isRight && aud === origin && left > 0 && left < 86_400 && sub.startsWith("mailto:") ? key : null;
}

const received = [];
let answer = 201;
const service = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    received.push({ headers: request.headers, body: Buffer.concat(parts) });
    response.writeHead(answer).end();
  });
});
await new Promise((resolve) => service.listen(Number(process.env.PAGE_PUSH_PORT), "127.0.0.1", resolve));
const origin = `http://127.0.0.1:${service.address().port}`;

await scenario(
  async ({ page, context, assert }) => {
    await context.grantPermissions(["notifications"], { origin: BASE });
    // The maker's service cannot be reached here: the browser's own part of subscribing is done by this test.
    await page.addInitScript(({ endpoint, p256dh, auth }) => {
      PushManager.prototype.subscribe = async (options) => {
        window.wanted = { userVisibleOnly: options.userVisibleOnly, key: options.applicationServerKey };
        return { endpoint, toJSON: () => ({ endpoint, keys: { p256dh, auth } }), unsubscribe: async () => true };
      };
    }, { endpoint: `${origin}/browser/1`, p256dh: browser.getPublicKey("base64url"), auth: auth.toString("base64url") });
    await signIn(page, "/settings");
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
    const pushes = page.getByRole("checkbox", { name: /Push to this browser/ });
    await pushes.check();
    const key = await page.evaluate(() => sessionStorage.getItem("obey-key"));
    const call = (method, request) => page.evaluate(async ({ method, request, key }) => {
      const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
      return (await fetch(`/obey.v1.PushService/${method}`, { method: "POST", headers, body: JSON.stringify(request) })).json();
    }, { method, request, key });
    await until("it is subscribed", async () => (await call("GetPushKey", {})).subscribed);
    const wanted = await page.evaluate(() => window.wanted);
    assert.ok(wanted.userVisibleOnly);

    // An agent asks while no page looks at it: one message, sealed and signed, without the command.
    const id = await session("needy", [{ tool: "Bash", input: { command: "secret-command" }, ask: true, result: "ok" }]);
    await until("a push", () => received.length === 1);
    const [first] = received;
    assert.equal(first.headers["content-encoding"], "aes128gcm");
    assert.ok(Number(first.headers.ttl) > 0);
    assert.equal(isSigned(first.headers.authorization, origin), wanted.key);
    const notice = JSON.parse(opened(first.body));
    assert.equal(notice.title, "needy needs you");
    assert.equal(notice.session, id);
    assert.ok(!opened(first.body).includes("secret"), "no command leaves the machine");

    // The browser shows it, and takes it back when it is answered on the command line.
    const devtools = await context.newCDPSession(page);
    const registered = new Promise((resolve) => {
      devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => registrations[0] && resolve(registrations[0].registrationId));
    });
    await devtools.send("ServiceWorker.enable");
    const registration = await registered;
    const deliver = (data) => devtools.send("ServiceWorker.deliverPushMessage", { origin: BASE, registrationId: registration, data });
    // A whole browser is asked what it shows. The one that the tests fetch shows no notices at all: what its worker would show
    // is written down.
    const [worker] = context.serviceWorkers();
    const isWhole = await worker.evaluate(() => Notification.permission === "granted");
    if (!isWhole) {
      await worker.evaluate(() => {
        const all = [];
        const { registration } = self;
        registration.showNotification = async (title, { tag, data }) => void all.push({ title, tag, data, close: () => all.splice(all.findIndex((one) => one.tag === tag), 1) });
        registration.getNotifications = async ({ tag } = {}) => all.filter((one) => tag === undefined || one.tag === tag);
      });
    }
    console.log(`the notices are those of ${isWhole ? "the browser" : "a stand-in"}`);
    const shown = () => worker.evaluate(async () => (await self.registration.getNotifications()).map(({ title, data }) => `${title} ${data.session}`));
    await deliver(opened(first.body));
    await until("the notice", async () => (await shown()).join() === `needy needs you ${id}`);
    const request = JSON.parse(await obey("session", "log", id, "--json").then((out) => out.split("\n").find((line) => line.includes("request_opened")))).request;
    await obey("session", "approve", id, request);
    await until("it is withdrawn", () => received.length === 2);
    const second = JSON.parse(opened(received[1].body));
    assert.ok(second.withdrawn && second.tag === notice.tag);
    await deliver(opened(received[1].body));
    await until("no notice", async () => (await shown()).length === 0);

    // Other addresses are refused; a service that knows the browser no more ends it.
    const refused = await call("Subscribe", { endpoint: "http://127.0.0.1:1/", p256dh: "x", auth: "x" });
    assert.match(refused.error, /^endpoint: /);
    answer = 410;
    await session("another", [{ tool: "Bash", input: { command: "x" }, ask: true, result: "ok" }]);
    await until("the last push", () => received.length === 3);
    await until("it is forgotten", async () => !(await call("GetPushKey", {})).subscribed);

    // Away: the shell opens from what the browser kept, and says so.
    await page.goto(`${BASE}/`);
    await page.reload();
    await page.getByRole("heading", { level: 1, name: "Inbox" }).waitFor();
    process.kill(Number(process.env.PAGE_DAEMON_PID), "SIGKILL");
    await page.getByRole("status", { name: "Connection" }).filter({ hasText: /reconnecting|not reachable/ }).waitFor();
    await page.reload();
    await page.getByRole("status", { name: "Connection" }).filter({ hasText: /connecting|not reachable/ }).waitFor();
    assert.equal(await page.getByRole("list", { name: "Inbox" }).getByRole("listitem").count(), 0, "nothing old is shown as if it were live");
    await obey("serve", "--detach", "--listen", `127.0.0.1:${new URL(BASE).port}`);
    await page.getByRole("status", { name: "Connection" }).filter({ hasText: "live" }).waitFor();
    await page.getByRole("list", { name: "Inbox" }).getByRole("listitem").first().waitFor();
    await obey("stop");
  },
  { serviceWorkers: "allow", mayFail: () => true },
);
