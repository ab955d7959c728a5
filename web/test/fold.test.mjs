// The fold gives the same rows as `crates/view`, byte for byte, on every golden journal; and it obeys the same laws.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { load } from "./load.mjs";

const goldens = process.env.GOLDENS ?? join(dirname(fileURLToPath(import.meta.url)), "../../crates/view/goldens");
const { Transcript } = await load("fold/transcript");
const names = readdirSync(goldens).filter((name) => name.endsWith(".jsonl")).map((name) => name.slice(0, -6));

function events(name) {
  return readFileSync(join(goldens, `${name}.jsonl`), "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

function fold(all) {
  const transcript = new Transcript();
  for (const event of all) transcript.apply(structuredClone(event));
  return transcript;
}

function printed(transcript) {
  return [transcript.header, ...transcript.rows].map((part) => JSON.stringify(part));
}

assert.ok(names.length > 10, "the goldens are there");

for (const name of names) {
  test(`${name}: the rows are those of the golden`, () => {
    const golden = JSON.parse(readFileSync(join(goldens, `${name}.rows.json`), "utf8"));
    // Printed again, because numbers beyond 2^53 are not exact here.
    const expected = [golden.header, ...golden.rows].map((part) => JSON.stringify(part));
    assert.deepEqual(printed(fold(events(name))), expected);
  });

  test(`${name}: an event that comes twice counts once`, () => {
    const all = events(name);
    assert.deepEqual(printed(fold(all.flatMap((event, at) => [event, ...all.slice(Math.max(0, at - 2), at + 1)]))), printed(fold(all)));
  });

  test(`${name}: a prefix and then the rest is the whole`, () => {
    const all = events(name);
    for (const cut of [1, Math.floor(all.length / 2), all.length - 1]) {
      const transcript = fold(all.slice(0, cut));
      for (const event of all) transcript.apply(structuredClone(event));
      assert.deepEqual(printed(transcript), printed(fold(all)));
    }
  });
}
