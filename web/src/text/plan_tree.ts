// The steps of a plan as a tree: each below the first step that it waits for, in the order of the plan. Pure.
import type { PlanStepState } from "../wire/types.ts";

export interface StepNode {
  one: PlanStepState;
  /** Further steps that it waits for. */
  after: string[];
  below: StepNode[];
}

/** Returns the steps that wait for no other, with those that wait for them below. Every step is in it once. */
export function tree(steps: PlanStepState[]): StepNode[] {
  const nodes = new Map<string, StepNode>();
  for (const one of steps) nodes.set(one.step?.id ?? "", { one, after: [], below: [] });
  const nameOf = (id: string) => nodes.get(id)?.one.step?.name || id;
  const roots: StepNode[] = [];
  const depths = new Map<string, number>();
  /** How many steps must end before; a plan has no circles, and one that had is shown flat. */
  const depthOf = (id: string, way: string[] = []): number => {
    const known = depths.get(id);
    if (known !== undefined) return known;
    const needs = (nodes.get(id)?.one.step?.depends_on ?? []).filter((need) => nodes.has(need) && !way.includes(need));
    const depth = Math.max(0, ...needs.map((need) => depthOf(need, [...way, id]) + 1));
    depths.set(id, depth);
    return depth;
  };
  for (const [id, node] of nodes) {
    const needs = (node.one.step?.depends_on ?? []).filter((need) => nodes.has(need) && depthOf(need) < depthOf(id));
    // Below the step that is likely to end last.
    const [above, ...others] = needs.toSorted((one, other) => depthOf(other) - depthOf(one));
    const place = above === undefined ? undefined : nodes.get(above);
    (place?.below ?? roots).push(node);
    node.after = others.map(nameOf);
  }
  return roots;
}
