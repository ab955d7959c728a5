// A phone gets a key by the address that `obey web pair` prints and shows as a code: over TLS, in a browser of its own, with the role
// that was given. It answers, writes and reviews at its width; the code works once; revoking it signs it out.
import { accessible, events, obey, scenario, session, signIn, until } from "./drive.mjs";

await scenario(
  async ({ page, assert, another }) => {
    const id = await session("fixer", [{ tool: "Bash", input: { command: "git push" }, ask: true, result: "pushed" }, { text: "It is pushed." }]);
    await signIn(page);
    const printed = await obey("web", "pair", "--role", "operator");
    assert.match(printed, /[▀▄█]{10}/, "a code for the camera");
    const url = printed.split("\n").find((line) => line.startsWith("https://"));
    assert.match(url, /^https:\/\/127\.0\.0\.1:\d+\/#pair=[0-9a-f]{32}$/);

    const phone = await another({ viewport: { width: 390, height: 844 }, touch: true, ignoreHTTPSErrors: true });
    const encodings = [];
    phone.on("response", (response) => response.url().includes("/assets/index-") && encodings.push(response.headers()["content-encoding"]));
    await phone.goto(url);
    await phone.waitForFunction(() => sessionStorage.getItem("obey-key") !== null);
    assert.equal(new URL(phone.url()).hash, "");
    if (!process.env.PAGE_DIST) assert.deepEqual(encodings, ["gzip"], "files are compressed for another machine");
    // The card is there, large enough for a thumb, and answers once.
    const allow = phone.getByRole("button", { name: "Allow once" });
    await allow.waitFor();
    assert.ok((await allow.boundingBox()).height >= 44);
    await accessible(phone, "the inbox of a phone");
    await until("the answer", async () => {
      await allow.tap({ timeout: 1_000 }).catch(() => {});
      return (await events(id)).some((event) => event.type === "request_settled");
    });
    await phone.getByRole("list", { name: "Inbox" }).getByRole("link", { name: /fixer/ }).tap();
    await phone.getByRole("log").getByText("It is pushed.", { exact: true }).waitFor();
    await phone.getByRole("status", { name: "Connection" }).getByText("live").waitFor();
    // The key for a new line is not the key for sending.
    const message = phone.getByRole("textbox", { name: "Message" });
    await message.tap();
    await message.pressSequentially("from the");
    await message.press("Enter");
    await message.pressSequentially('phone SCRIPT: [{"text":"hello phone"}]');
    assert.ok((await message.inputValue()).startsWith("from the\nphone"));
    await phone.getByRole("button", { name: "Send" }).tap();
    await phone.getByRole("log").getByText("hello phone", { exact: true }).waitFor();
    const by = (await events(id)).filter((event) => ["turn_started", "request_settled"].includes(event.type)).map((event) => event.by);
    for (const one of by.slice(1)) assert.match(one, /^web\//, by.join(" "));
    // What is beside the transcript on a desk is a panel here.
    await phone.getByRole("button", { name: "Details" }).tap();
    const details = phone.getByRole("dialog", { name: "About this session" });
    await details.getByRole("link", { name: "Review" }).tap();
    await phone.getByRole("heading", { level: 1, name: "Review" }).waitFor();

    // Its role is what was given: it may not list devices.
    const device = JSON.parse(await obey("device", "list", "--json")).devices.find((one) => one.role === "operator");
    assert.equal(device.proof, "page");
    const refused = await phone.evaluate(async () => {
      const headers = { "content-type": "application/json", authorization: `Bearer ${sessionStorage.getItem("obey-key")}` };
      return (await fetch("/obey.v1.DeviceService/ListDevices", { method: "POST", headers, body: "{}" })).status;
    });
    assert.equal(refused, 403);
    // The code works once.
    const second = await another({ ignoreHTTPSErrors: true });
    await second.goto(url);
    await second.getByRole("alert").filter({ hasText: "obey web" }).waitFor();
    await obey("device", "revoke", device.name);
    await phone.getByRole("status", { name: "Connection" }).getByText("signed out").waitFor({ state: "attached" });
  },
  { mayRequest: (url) => url.startsWith("https://127.0.0.1:"), mayFail: () => true },
);
