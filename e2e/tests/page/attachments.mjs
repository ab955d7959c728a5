// Pictures of prompts are shown in the transcript, with their names as words for those who do not see them, and only if they
// are pictures: everything else keeps its name. To-do lists say what the agent says of their entries.
import { deflateSync } from "node:zlib";
import { BASE, accessible, events, scenario, session, signIn, until } from "./drive.mjs";

/** Makes a PNG of one colour. */
function png(width, height) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc(body), body.length + 4);
    return out;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const line = Buffer.alloc(1 + width * 3, 0x60);
  line[0] = 0;
  const data = deflateSync(Buffer.concat(Array.from({ length: height }, () => line)));
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", data), chunk("IEND", Buffer.alloc(0))]);
}

function crc(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran = true"><script>window.ran = true</script></svg>';

await scenario(async ({ page, context, assert }) => {
  const id = await session("shots");
  await signIn(page, `/s/${id}`);
  const log = page.getByRole("log");
  const shown = (where, name) => where.getByRole("log").getByRole("img", { name, exact: true });
  const isShown = async (where, name) => until(`${name} is shown`, () => shown(where, name).evaluate((image) => image.complete && image.naturalWidth).catch(() => 0));
  await page.locator('input[type="file"]').setInputFiles([
    { name: "screen.png", mimeType: "image/png", buffer: png(600, 400) },
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("some notes") },
    { name: "<b>broken</b>.png", mimeType: "image/png", buffer: Buffer.from("no picture at all") },
    { name: "drawing.svg", mimeType: "image/svg+xml", buffer: Buffer.from(SVG) },
  ]);
  await page.getByRole("list", { name: "Files" }).getByText("drawing.svg").waitFor();
  await page.getByRole("textbox", { name: "Message" }).fill('look at this SCRIPT: [{"text":"seen"}]');
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("seen", { exact: true }).waitFor();
  assert.equal(await isShown(page, "screen.png"), 600);
  const image = shown(page, "screen.png");
  assert.match(await image.getAttribute("src"), /^blob:/, "nothing but the journal's bytes");
  await log.getByText("screen.png (image/png)", { exact: true }).waitFor();
  await log.getByText("notes.txt (text/plain)", { exact: true }).waitFor();
  await log.getByText("<b>broken</b>.png (image/png) is not shown: the browser cannot read it", { exact: true }).waitFor();
  await log.getByText("drawing.svg (image/svg+xml)", { exact: true }).waitFor();
  assert.equal(await log.getByRole("img").count(), 1);
  assert.equal(await page.evaluate(() => window.ran), undefined, "a drawing is a document and is not opened");

  // By keyboard it becomes as large as it is, and small again.
  const small = (await image.boundingBox()).height;
  const enlarge = log.getByRole("button", { name: "screen.png" });
  await enlarge.press("Enter");
  assert.equal(await enlarge.getAttribute("aria-expanded"), "true");
  await until("it is larger", async () => (await image.boundingBox()).height > small);
  await enlarge.press("Enter");
  await until("it is small again", async () => (await image.boundingBox()).height === small);
  await accessible(page, "a prompt with a picture");

  // A page without a key reads it too; one whose journal does not answer says so and keeps the name.
  const looking = await context.newPage();
  await looking.goto(`${BASE}/s/${id}`);
  await isShown(looking, "screen.png");
  await looking.route(/\/api\/sessions\/.*limit=1&/, (route) => route.abort("connectionreset"));
  await looking.reload();
  await looking.getByRole("log").getByText(/^screen\.png \(image\/png\) is not shown: /).waitFor();
  await looking.close();

  // The reader's place does not move when a picture is there: its room was kept.
  await page.reload();
  await isShown(page, "screen.png");
  assert.equal((await shown(page, "screen.png").boundingBox()).height, small);

  // A to-do list with everything that an agent may say.
  const todo = [
    { text: "find it", status: "completed", priority: "low" },
    { text: "mend it", description: "In the parser, not around it.", active_form: "Mending it", status: "in_progress", priority: "high" },
    "tell",
  ];
  await page.getByRole("textbox", { name: "Message" }).fill(`plan SCRIPT: ${JSON.stringify([{ todo }, { text: "planned" }])}`);
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("planned", { exact: true }).waitFor();
  await log.getByText("To-dos 1 of 3: Mending it").click();
  const plan = log.locator(".row-plan");
  await plan.getByText("● Mending it · high priority").waitFor();
  await plan.getByText("In the parser, not around it.").waitFor();
  await plan.getByText("✓ find it · low priority").waitFor();
  await plan.getByText("○ tell", { exact: true }).waitFor();
  await page.getByRole("listitem").filter({ hasText: "Mending it · high priority" }).waitFor();
  assert.ok((await events(id)).some((event) => event.type === "todos_changed"));
});
