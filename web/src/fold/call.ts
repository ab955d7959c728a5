// What a call does, in words: its kind, its one line, and the summary of a run of calls.
import { CALL_TEXT_MAX_CHARS } from "./limits.ts";
import type { CallRow, Json } from "./row.ts";
import { head, oneLine } from "./text.ts";

const KINDS: [string, string[]][] = [
  ["plan", ["todo", "plan"]],
  ["delegate", ["task", "agent", "worker"]],
  ["fetch", ["fetch", "http", "download", "browse"]],
  ["search", ["search", "grep", "glob", "find", "query"]],
  ["edit", ["edit", "write", "patch", "create", "update", "replace", "delete", "remove", "move", "rename"]],
  ["read", ["read", "view", "list", "cat", "open", "ls"]],
  ["execute", ["bash", "shell", "exec", "run", "command", "terminal"]],
];

const TELLING = ["command", "file_path", "path", "notebook_path", "pattern", "url", "query", "description"];

/** Returns the kind of a tool, judging by its name. */
export function callKind(tool: string): string {
  const name = tool.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return KINDS.find(([, words]) => words.some((word) => name.includes(word)))?.[0] ?? "other";
}

/** Returns the members of an object; nothing for other values. */
export function members(value: Json | undefined): { [key: string]: Json } | null {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
}

/** Describes a call in one line: its command, its file, the files it changes, its title, or its whole input. */
export function callText(tool: string, input: Json, title: string): string {
  const object = members(input);
  let what: string | null = null;
  for (const key of TELLING) {
    what ??= fieldText(object?.[key]);
  }
  what ??= changedPaths(object?.["changes"]);
  if (what === null) {
    const isEmpty = input === null || (object !== null && Object.keys(object).length === 0);
    if (title !== "") what = title;
    else what = isEmpty ? "" : JSON.stringify(input);
  }
  what = oneLine(what);
  let line = `${tool}: ${what}`;
  if (what === "") line = tool;
  else if (what.startsWith(tool)) line = what;
  return head(line, CALL_TEXT_MAX_CHARS);
}

function fieldText(value: Json | undefined): string | null {
  if (typeof value === "string" && value !== "") return value;
  if (Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string")) {
    return value.join(" ");
  }
  return null;
}

function changedPaths(changes: Json | undefined): string | null {
  let paths: string[] = [];
  if (Array.isArray(changes)) {
    for (const change of changes) {
      const path = members(change)?.["path"];
      if (typeof path === "string") paths.push(path);
    }
  } else {
    const object = members(changes);
    if (object === null) return null;
    paths = Object.keys(object);
  }
  return paths.length === 0 ? null : paths.join(", ");
}

/** Describes a run of calls: kinds in the order of their first call, with their numbers. */
export function callsSummary(calls: CallRow[]): string {
  const kinds: { kind: string; tool: string; count: number; first: CallRow }[] = [];
  for (const call of calls) {
    const tool = call.kind === "other" ? call.tool : "";
    const known = kinds.find((one) => one.kind === call.kind && one.tool === tool);
    if (known) known.count += 1;
    else kinds.push({ kind: call.kind, tool, count: 1, first: call });
  }
  return kinds.map(part).join(", ");
}

function part({ kind, tool, count, first }: { kind: string; tool: string; count: number; first: CallRow }): string {
  switch (kind) {
    case "execute":
      return count === 1 ? `ran ${withoutTool(first)}` : `ran ${count} commands`;
    case "read":
      return `read ${count}`;
    case "search":
      return `searched ${count}`;
    case "edit":
      return `edited ${count}`;
    case "fetch":
      return `fetched ${count}`;
    case "delegate":
      return count === 1 ? `delegated ${withoutTool(first)}` : `delegated ${count}`;
    case "plan":
      return "planned";
    default:
      return count === 1 ? tool : `${tool} ${count}`;
  }
}

function withoutTool(call: CallRow): string {
  const start = `${call.tool}: `;
  return call.text.startsWith(start) ? call.text.slice(start.length) : call.text;
}
