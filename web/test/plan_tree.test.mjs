// The steps of a plan as a tree.
import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { tree } = await load("text/plan_tree");
const step = (id, ...depends_on) => ({ step: { id, name: "", depends_on }, state: "waiting", session_id: "", attempts: 0, text: "" });
const shown = (nodes) => nodes.map(({ one, after, below }) => `${one.step.id}${after.length > 0 ? `+${after.join("+")}` : ""}${below.length > 0 ? `(${shown(below)})` : ""}`).join(" ");

test("a step is below the one that it waits for longest, once, and names the others", () => {
  assert.equal(shown(tree([step("a"), step("b"), step("c")])), "a b c");
  assert.equal(shown(tree([step("c", "a", "b"), step("a"), step("b", "a")])), "a(b(c+a))");
  assert.equal(shown(tree([step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")])), "a(b(d+c) c)");
});

test("what a plan cannot have is shown, too", () => {
  assert.equal(shown(tree([step("a", "gone")])), "a");
  assert.equal(shown(tree([step("a", "b"), step("b", "a")])).split(/[ ()]+/).filter(Boolean).sort().join(), "a,b");
  assert.equal(shown(tree([])), "");
});
