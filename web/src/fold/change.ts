// The changes of files that a call's input describes, as lines. Knows the formats of the agents' edit tools.
import { members } from "./call.ts";
import { DIFF_CONTEXT, DIFF_LINES_MAX, FILES_MAX } from "./limits.ts";
import type { DiffLine, FileChange, Json } from "./row.ts";
import { lines } from "./text.ts";

function textOf(value: Json | undefined, key: string): string | null {
  const text = members(value)?.[key];
  return typeof text === "string" ? text : null;
}

/** Returns the changes that an input describes; none if the tool is not known to edit files. */
export function fileChanges(tool: string, input: Json): FileChange[] {
  const object = members(input);
  const changes = object?.["changes"];
  const byPath = members(changes);
  if (byPath !== null) {
    return Object.entries(byPath).slice(0, FILES_MAX).map(([path, change]) => {
      const kind = textOf(change, "type");
      return kind === "add" || kind === "delete"
        ? whole(path, kind, textOf(change, "content"))
        : unified(path, textOf(change, "unified_diff") ?? "");
    });
  }
  if (Array.isArray(changes)) {
    return changes.slice(0, FILES_MAX).flatMap((change) => {
      const path = textOf(change, "path");
      if (path === null) return [];
      const diff = textOf(change, "diff") ?? "";
      const kind = textOf(members(change)?.["kind"], "type");
      return [kind === "add" || kind === "delete" ? whole(path, kind, diff) : unified(path, diff)];
    });
  }
  const path = textOf(input, "file_path");
  if (path === null) return [];
  if (tool === "Edit" || tool === "MultiEdit") {
    const listed = object?.["edits"];
    const edits: Json[] = Array.isArray(listed) ? listed.slice(0, FILES_MAX) : [input];
    const pairs = edits.flatMap((edit): [string, string][] => {
      const [before, after] = [textOf(edit, "old_string"), textOf(edit, "new_string")];
      return before === null || after === null ? [] : [[before, after]];
    });
    return pairs.length === 0 ? [] : [replaced(path, pairs)];
  }
  return tool === "Write" ? [whole(path, "add", textOf(input, "content"))] : [];
}

/** A change that is being put together; keeps a bounded number of lines and counts all. */
class ChangeBuilder {
  readonly change: FileChange;

  constructor(path: string) {
    this.change = { path, added: 0, removed: 0, lines: [], omitted: 0 };
  }

  push(mark: DiffLine["mark"], text: string): void {
    if (mark === "+") this.change.added += 1;
    if (mark === "-") this.change.removed += 1;
    if (this.change.lines.length < DIFF_LINES_MAX) this.change.lines.push({ mark, text });
    else this.change.omitted += 1;
  }
}

function whole(path: string, kind: string, content: string | null): FileChange {
  const builder = new ChangeBuilder(path);
  for (const line of lines(content ?? "")) builder.push(kind === "delete" ? "-" : "+", line);
  return builder.change;
}

function unified(path: string, diff: string): FileChange {
  const builder = new ChangeBuilder(path);
  let inHunk = false;
  for (const line of lines(diff)) {
    if (line.startsWith("@@")) {
      inHunk = true;
      builder.push("@", line);
    } else if (inHunk) {
      const mark = line[0];
      if (mark === "+" || mark === "-" || mark === " ") builder.push(mark, line.slice(1));
      else if (mark === undefined) builder.push(" ", "");
    }
  }
  return builder.change;
}

function replaced(path: string, pairs: [string, string][]): FileChange {
  const builder = new ChangeBuilder(path);
  pairs.forEach(([oldText, newText], at) => {
    if (at > 0) builder.push("@", "");
    const [before, after] = [lines(oldText), lines(newText)];
    const least = Math.min(before.length, after.length);
    let start = 0;
    while (start < least && before[start] === after[start]) start += 1;
    let end = 0;
    while (end < least - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
    for (const line of before.slice(Math.max(0, start - DIFF_CONTEXT), start)) builder.push(" ", line);
    for (const line of before.slice(start, before.length - end)) builder.push("-", line);
    for (const line of after.slice(start, after.length - end)) builder.push("+", line);
    const rest = before.length - end;
    for (const line of before.slice(rest, Math.min(before.length, rest + DIFF_CONTEXT))) builder.push(" ", line);
  });
  return builder.change;
}
