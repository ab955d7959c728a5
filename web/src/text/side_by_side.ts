// The lines of a diff in two columns: what was removed beside what was added in its place. Pure.

export interface DiffLine {
  /** "add", "del", "hunk", or nothing for a line that stayed. */
  kind: string;
  text: string;
  old: number | null;
  new: number | null;
}

export interface LinePair {
  left: DiffLine | null;
  right: DiffLine | null;
}

/** Pairs lines. Runs of removed and added lines stand beside each other, the rest on both sides. */
export function pairs(lines: DiffLine[]): LinePair[] {
  const all: LinePair[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) all.push({ left: removed[at] ?? null, right: added[at] ?? null });
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    if (line.kind === "del") {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.kind === "add") added.push(line);
    else {
      flush();
      all.push({ left: line, right: line });
    }
  }
  flush();
  return all;
}

const squeezed = (text: string) => text.replace(/\s+/g, "");

/** Leaves out changes of white space alone: such a line stayed, as it is now. */
export function withoutSpace(lines: DiffLine[]): DiffLine[] {
  return pairs(lines).flatMap(({ left, right }) => {
    if (left === right) return left ? [left] : [];
    if (left && right && squeezed(left.text) === squeezed(right.text)) return [{ kind: "", text: right.text, old: left.old, new: right.new }];
    if (left && !right && squeezed(left.text) === "") return [];
    if (right && !left && squeezed(right.text) === "") return [{ ...right, kind: "" }];
    return [left, right].filter((line): line is DiffLine => line !== null);
  });
}
