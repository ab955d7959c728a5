// The events that become notices, and their words.
import { UNPARSED_MAX_CHARS } from "./limits.ts";
import type { JournalEvent, RowBody } from "./row.ts";
import { head, oneLine } from "./text.ts";

type Notice = Extract<RowBody, { kind: "notice" }>;

/** Returns a field that is a text; an absent one is empty. */
export function str(event: { [key: string]: unknown }, key: string): string {
  const value = event[key];
  return typeof value === "string" ? value : "";
}

export function info(word: string, text: string): Notice {
  return { kind: "notice", word, level: "info", code: "", text };
}

function because(what: string, message: string): string {
  return message === "" ? what : `${what}: ${message}`;
}

/** Returns the name of a mode as people write it. */
export function modeName(mode: string): string {
  return mode === "accept_edits" ? "acceptEdits" : mode;
}

/** Returns the notice of an event that has one. */
export function notice(event: JournalEvent): Notice | null {
  switch (event.type) {
    case "session_created": {
      const model = str(event, "model") === "" ? "" : ` ${str(event, "model")}`;
      const text = `${str(event, "name")}: ${str(event, "provider")}${model} in ${str(event, "working_dir")}, ${modeName(str(event, "mode"))}`;
      return info("created", text);
    }
    case "status_changed":
      if (event["to"] === "FAILED") {
        const text = because("failed", str(event, "message"));
        return { kind: "notice", word: "status", level: "error", code: str(event, "code"), text };
      }
      return event["to"] === "STOPPED" ? info("status", because("stopped", str(event, "message"))) : null;
    case "agent_exited":
      return exited(event);
    case "restarted":
      return info("restart", `restart number ${String(event["count"])}`);
    case "renamed":
      return info("renamed", str(event, "name"));
    case "interrupt_requested": {
      const more = event["reason"] === "budget_exceeded" ? ": the budget is used up" : "";
      return { kind: "notice", word: "cancel", level: "warning", code: "", text: `the turn was asked to end${more}` };
    }
    case "grants_changed": {
      const grants = Array.isArray(event["grants"]) ? event["grants"].length : 0;
      return info("grants", `${grants} in force, changed by ${str(event, "by")}`);
    }
    case "mode_changed":
      return info("mode", modeName(str(event, "mode")));
    case "plan_mode_changed":
      return info("plan", event["on"] === true ? "planning began" : "planning ended");
    case "model_changed":
      return info("model", str(event, "model"));
    case "servers_changed":
      return failedServers(event["servers"]);
    case "notice": {
      const level = event["level"] as Notice["level"];
      return { kind: "notice", word: "notice", level, code: str(event, "code"), text: str(event, "message") };
    }
    case "unparsed": {
      const text = head(oneLine(str(event, "raw")), UNPARSED_MAX_CHARS);
      return { kind: "notice", word: "unparsed", level: "warning", code: "", text };
    }
    default:
      return plan(event);
  }
}

function signed(text: string, by: string): string {
  return by === "" ? text : `${text}, by ${by}`;
}

/** Returns the notice of what is planned for the session and what it may spend. */
function plan(event: JournalEvent): Notice | null {
  const by = str(event, "by");
  switch (event.type) {
    case "queue_changed":
      return info("queue", queueText(event));
    case "budget_changed":
      return info("budget", signed(budgetText((event["budget"] ?? {}) as { [key: string]: unknown }), by));
    case "rate_limited":
      return { kind: "notice", word: "limit", level: "warning", code: "", text: `waiting for a rate limit: ${str(event, "reason")}` };
    case "rate_limit_ended":
      return info("limit", "no longer waiting for a rate limit");
    case "archive_changed":
      return info("archive", signed(event["archived"] === true ? "archived" : "shown in lists again", by));
    case "session_forked":
      return info("fork", signed(`of ${str(event, "from")} at event ${String(event["from_seq"])}`, by));
    default:
      return null;
  }
}

function queueText(event: JournalEvent): string {
  const entry = str(event, "entry");
  const by = str(event, "by") === "" ? "" : ` by ${str(event, "by")}`;
  switch (event["change"]) {
    case "added":
      return `${entry} was queued${by}`;
    case "edited":
      return `${entry} was edited${by}`;
    case "moved":
      return `${entry} was moved to place ${String(event["position"])}${by}`;
    case "dropped":
      return `${entry} was dropped from the queue${by}`;
    case "sent":
      return `${entry} is sent as ${str(event, "turn")}`;
    case "paused":
      return `the queue is paused: ${str(event, "reason")}`;
    default:
      return `the queue is resumed${by}`;
  }
}

function budgetText(budget: { [key: string]: unknown }): string {
  const parts: string[] = [];
  const { cost_micro_usd: cost, tokens, work_ms: work, calls } = budget;
  if (typeof cost === "number") {
    const decimals = String(cost % 1_000_000).padStart(6, "0").replace(/0{1,4}$/, "");
    parts.push(`${Math.floor(cost / 1_000_000)}.${decimals} USD`);
  }
  if (typeof tokens === "number") parts.push(`${tokens} tokens`);
  if (typeof work === "number") parts.push(`${work % 60_000 === 0 ? work / 60_000 : (work / 60_000).toFixed(1)} min of working time`);
  if (typeof calls === "number") parts.push(`${calls} calls`);
  return parts.length === 0 ? "unlimited" : parts.join(", ");
}

function exited(event: JournalEvent): Notice {
  const { exit_code: code, signal } = event;
  let how = "the agent ended";
  if (typeof signal === "number") how = `the agent was ended by signal ${signal}`;
  else if (typeof code === "number") how = `the agent ended with code ${code}`;
  const level = code === 0 ? "info" : "warning";
  return { kind: "notice", word: "agent", level, code: "", text: because(how, str(event, "message")) };
}

function failedServers(servers: unknown): Notice | null {
  if (!Array.isArray(servers)) return null;
  const failed = servers.filter((server) => server.status === "failed");
  if (failed.length === 0) return null;
  const texts = failed.map((server) => because(str(server, "name"), str(server, "error")));
  return { kind: "notice", word: "servers", level: "warning", code: "", text: `tool servers failed: ${texts.join(", ")}` };
}
