// Two columns of a diff, and a diff without changes of white space.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { pairs, withoutSpace } = await load("text/side_by_side");
const line = (kind, text) => ({ kind, text, old: kind === "add" ? null : 1, new: kind === "del" ? null : 1 });
const shown = (all) => all.map(({ left, right }) => `${left?.text ?? "-"}|${right?.text ?? "-"}`);

test("removed lines stand beside what was added in their place", () => {
  const lines = [line("hunk", "@@"), line("", "a"), line("del", "b"), line("del", "c"), line("add", "B"), line("", "d"), line("add", "e"), line("del", "f")];
  assert.deepEqual(shown(pairs(lines)), ["@@|@@", "a|a", "b|B", "c|-", "d|d", "-|e", "f|-"]);
});

test("changes of white space alone are lines that stayed", () => {
  const lines = [line("del", "let x=1;"), line("del", "gone"), line("add", "  let x = 1;"), line("add", ""), line("", "same")];
  assert.deepEqual(withoutSpace(lines).map(({ kind, text }) => `${kind}:${text}`), [":  let x = 1;", "del:gone", "add:", ":same"]);
});
