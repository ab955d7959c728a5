// The events of a stream, whatever the pieces are in which it arrives.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { EventParser } = await load("wire/sse");
const stream = ": still here\n\nevent: hello\ndata: {\"build\":\"1\"}\n\nevent: events\ndata: {\"text\":\"Wörter – ✓ 日本語\"}\n\ndata: a\ndata: b\n\n";
const bytes = new TextEncoder().encode(stream);
const whole = new EventParser().push(stream);

/** What is read of pieces of bytes, decoded as the page does. */
function read(pieces) {
  const decoder = new TextDecoder();
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.push(decoder.decode(piece, { stream: true })));
}

test("a stream that is split at any byte gives the same events", () => {
  assert.equal(whole.length, 3);
  for (let at = 0; at <= bytes.length; at += 1) assert.deepEqual(read([bytes.subarray(0, at), bytes.subarray(at)]), whole, `split at ${at}`);
  assert.deepEqual(read([...bytes].map((byte) => Uint8Array.of(byte))), whole, "byte by byte");
});

test("a stream that is cut at any byte gives whole events only, the first ones", () => {
  for (let at = 0; at <= bytes.length; at += 1) {
    const seen = read([bytes.subarray(0, at)]);
    assert.deepEqual(seen, whole.slice(0, seen.length), `cut at ${at}`);
  }
});
