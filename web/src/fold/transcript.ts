// The fold of a session's events into rows, the same as `crates/view/src/transcript.rs`: its README has the rules, its
// goldens bind both. Pure; imports nothing from outside this folder.
import { callKind, callText, callsSummary } from "./call.ts";
import { fileChanges } from "./change.ts";
import * as limits from "./limits.ts";
import { info, modeName, notice, str } from "./notices.ts";
import { list, opened, outcomeText, parentOf, permissionText, person } from "./requests.ts";
import type { CallRow, CallState, JournalEvent, Json, Row, RowBody, SessionHeader, TodoRow, TurnUsage } from "./row.ts";
import { chars, tail, trim } from "./text.ts";

/** Kinds that only the header shows, or nothing. */
const SILENT = new Set(["agent_started", "agent_ready", "commands_changed", "usage_reported", "tools_registered", "input_holder_changed"]);

/** Kinds that become a notice, or nothing. */
const NOTICES = new Set([
  "session_created", "status_changed", "agent_exited", "restarted", "renamed", "interrupt_requested", "grants_changed",
  "mode_changed", "plan_mode_changed", "model_changed", "servers_changed", "notice", "unparsed",
  "queue_changed", "budget_changed", "rate_limited", "rate_limit_ended", "archive_changed", "session_forked",
]);

/** The rows of a session, and what is known of it. */
export class Transcript {
  readonly header: SessionHeader = {
    name: "", provider: "", model: "", mode: "", folder: "", status: "", turn: null, turn_at: null, planning: false,
    todos: [], usage: null, context_tokens: null, context_window: null, open_requests: [], commands: [],
    input_holder: null, first_seq: 0, last_seq: 0,
  };
  rows: Row[] = [];
  /** The last event whose row was dropped. */
  droppedThrough = 0;
  private readonly rowsMax: number;
  private readonly growing = new Map<string | null, Row>();
  private readonly calls = new Map<string, { row: Row; call: CallRow }>();
  private readonly permissions = new Map<string, string>();
  private readonly automatic = new Map<string, string>();
  private readonly requests = new Map<string, Row>();
  /** The calls that wait for a permission, by its request. */
  private readonly waiting = new Map<string, string>();
  private readonly workers = new Map<string, Row>();
  /** Characters of a call's output, counted once. */
  private readonly outputChars = new WeakMap<CallRow, number>();
  private turnUsage: TurnUsage | null = null;
  private lastText: Row | null = null;
  private seq = 0;
  private at = 0;

  constructor(rowsMax: number = limits.ROWS_MAX) {
    this.rowsMax = Math.max(1, rowsMax);
  }

  /** Begins behind an event, so that a fold of the newest events alone shows no gap for the others. */
  startAfter(seq: number): void {
    if (this.header.first_seq === 0) this.header.last_seq = seq;
  }

  /** Applies an event. Returns whether it was new. */
  apply(event: JournalEvent): boolean {
    const { header } = this;
    if (event.seq <= header.last_seq) return false;
    this.seq = event.seq;
    this.at = Math.floor(Date.parse(event.at));
    const missing = header.last_seq + 1;
    if (event.seq > missing) {
      this.pushRow({ key: missing, last: event.seq - 1, at: this.at, parent: null, kind: "gap", from: missing, to: event.seq - 1 });
    }
    if (header.first_seq === 0) header.first_seq = event.seq;
    header.last_seq = event.seq;
    this.noteHeader(event);
    this.show(event);
    return true;
  }

  private show(event: JournalEvent): void {
    const parent = typeof event["parent"] === "string" ? event["parent"] : null;
    switch (event.type) {
      case "turn_started":
      case "message_added":
        return this.prompt(event);
      case "text_delta":
        return this.grow(parent, str(event, "text"), "text");
      case "thinking_delta":
        return this.grow(parent, str(event, "text"), "thinking");
      case "tool_started":
        return this.callStarted(str(event, "call"), str(event, "tool"), (event["input"] ?? null) as Json, str(event, "title"), parent);
      case "tool_progress":
        return this.changeCall(str(event, "call"), (call) => this.appendOutput(call, str(event, "output")));
      case "tool_finished":
        return this.callFinished(event);
      case "turn_ended":
        return this.turnEnded(event);
      case "request_opened":
        return this.requestOpened(event);
      case "request_settled":
        return this.requestSettled(event);
      case "todos_changed":
        return this.todos(event);
      case "compacted":
        return this.push({
          kind: "compaction", tokens_before: num(event["tokens_before"]), tokens_after: num(event["tokens_after"]), summary: str(event, "summary"),
        });
      case "worker_started":
      case "worker_progressed":
      case "worker_finished":
        return this.worker(event);
      case "activity_reported":
        return this.push({
          kind: "activity", activity: str(event, "activity"), agent_name: str(event, "agent_name"), tool: str(event, "tool"),
          content: str(event, "content"), ok: event["ok"] === true,
        });
      case "agent_logged":
        return this.stderr(str(event, "line"));
      default: {
        if (SILENT.has(event.type)) return;
        const shown = NOTICES.has(event.type) ? notice(event) : info("other", event.type);
        if (shown !== null) this.push(shown);
      }
    }
  }

  private noteHeader(event: JournalEvent): void {
    const { header } = this;
    switch (event.type) {
      case "session_created":
        header.provider = str(event, "provider");
        header.model = str(event, "model");
        header.name = str(event, "name");
        header.folder = str(event, "working_dir");
        header.mode = modeName(str(event, "mode"));
        header.status = "CREATED";
        break;
      case "status_changed":
        header.status = str(event, "to");
        break;
      case "agent_ready":
        if (str(event, "model") !== "") header.model = str(event, "model");
        break;
      case "renamed":
        header.name = str(event, "name");
        break;
      case "mode_changed":
        header.mode = modeName(str(event, "mode"));
        break;
      case "plan_mode_changed":
        header.planning = event["on"] === true;
        break;
      case "model_changed":
        header.model = str(event, "model");
        break;
      case "commands_changed":
        header.commands = list(event["commands"]).map((command) => str(command, "name"));
        break;
      case "input_holder_changed":
        header.input_holder = typeof event["holder"] === "string" ? event["holder"] : null;
        break;
      case "usage_reported":
        header.usage = added(header.usage, event);
        header.context_tokens = num(event["context_tokens"]) ?? header.context_tokens;
        header.context_window = num(event["context_window"]) ?? header.context_window;
        this.turnUsage = added(this.turnUsage, event);
        break;
    }
  }

  private pushRow(row: Row): Row {
    this.rows.push(row);
    // Dropped in lots: to move all rows for every new one would take long.
    if (this.rows.length > this.rowsMax) {
      const oldest = this.rows.shift();
      if (oldest) this.droppedThrough = Math.max(this.droppedThrough, oldest.last);
    }
    return row;
  }

  /** Adds a row that closes nothing. */
  private push(body: RowBody, parent: string | null = null): void {
    this.pushRow({ key: this.seq, last: this.seq, at: this.at, parent, ...body });
  }

  /** Adds a row after closing the one that grew for the same sub-agent; it grows from now on. */
  private begin(parent: string | null, body: RowBody): Row {
    this.close(parent);
    const row = this.pushRow({ key: this.seq, last: this.seq, at: this.at, parent, ...body });
    this.growing.set(parent, row);
    return row;
  }

  private close(parent: string | null): void {
    const row = this.growing.get(parent);
    if (row && "closed" in row) row.closed = true;
    this.growing.delete(parent);
  }

  private closeAll(): void {
    for (const parent of [...this.growing.keys()]) this.close(parent);
  }

  private prompt(event: JournalEvent): void {
    const isStart = event.type === "turn_started";
    if (isStart) {
      this.closeAll();
      this.header.turn = str(event, "turn");
      this.header.turn_at = this.at;
      this.turnUsage = null;
      this.lastText = null;
    }
    this.close(null);
    this.push({
      kind: "prompt",
      turn: str(event, "turn"),
      origin: isStart ? str(event, "origin") : "client",
      added: !isStart,
      text: str(event, isStart ? "prompt" : "text"),
      by: person(str(event, "by")),
      attachments: list(event["attachments"]).map((one) => ({ name: str(one, "name"), media_type: str(one, "media_type") })),
    });
  }

  private grow(parent: string | null, piece: string, kind: "text" | "thinking"): void {
    if (piece === "") return;
    const row = this.growing.get(parent);
    if (row && row.kind === kind && !isFull(row.text)) {
      row.text += piece;
      row.last = this.seq;
      return;
    }
    const begun = this.begin(parent, { kind, text: piece, closed: false });
    if (parent === null && kind === "text") this.lastText = begun;
  }

  private callStarted(id: string, tool: string, input: Json, title: string, parent: string | null): void {
    const call: CallRow = {
      call: id, seq: this.seq, tool, kind: callKind(tool), text: callText(tool, input, title), input,
      state: [...this.waiting.values()].includes(id) ? "waiting" : "running",
      output: "", output_omitted: 0, started: this.at, took_ms: null, permission: this.permissions.get(id) ?? "",
    };
    this.permissions.delete(id);
    const files = fileChanges(tool, input);
    if (files.length > 0) {
      this.calls.set(id, { row: this.begin(parent, { kind: "edit", call, files }), call });
      return;
    }
    const row = this.growing.get(parent);
    if (row && row.kind === "calls" && row.calls.length < limits.CALLS_ROW_MAX) {
      row.calls.push(call);
      row.summary = callsSummary(row.calls);
      row.last = this.seq;
      this.calls.set(id, { row, call });
      return;
    }
    const begun = this.begin(parent, { kind: "calls", summary: callsSummary([call]), calls: [call], closed: false });
    this.calls.set(id, { row: begun, call });
  }

  private appendOutput(call: CallRow, output: string): void {
    call.output += output;
    let count = (this.outputChars.get(call) ?? 0) + chars(output);
    if (count > 2 * limits.OUTPUT_MAX_CHARS) {
      const [kept, omitted] = tail(call.output, limits.OUTPUT_MAX_CHARS);
      call.output = kept;
      count = limits.OUTPUT_MAX_CHARS;
      call.output_omitted += omitted;
    }
    this.outputChars.set(call, count);
  }

  private callFinished(event: JournalEvent): void {
    const id = str(event, "call");
    if (!this.calls.has(id)) this.callStarted(id, str(event, "tool"), null, "", null);
    this.changeCall(id, (call) => {
      call.state = event["ok"] === true ? "ok" : "failed";
      call.took_ms = this.at - call.started;
      const output = str(event, "output");
      if (output !== "") [call.output, call.output_omitted] = tail(output, limits.OUTPUT_MAX_CHARS);
    });
    this.calls.delete(id);
  }

  private changeCall(id: string, change: (call: CallRow) => void): void {
    const known = this.calls.get(id);
    if (!known) return;
    change(known.call);
    known.row.last = this.seq;
  }

  private callPermitted(id: string, permission: string): void {
    if (this.calls.has(id)) this.changeCall(id, (call) => (call.permission = permission));
    else this.permissions.set(id, permission);
  }

  private callWaits(request: string, id: string): void {
    this.changeCall(id, (call) => {
      if (call.state === "running") call.state = "waiting";
    });
    this.waiting.set(request, id);
  }

  /** A call goes on once its request is answered, unless it waits for another answer. */
  private callGoesOn(request: string): void {
    const id = this.waiting.get(request);
    if (id === undefined) return;
    this.waiting.delete(request);
    if ([...this.waiting.values()].includes(id)) return;
    this.changeCall(id, (call) => {
      if (call.state === "waiting") call.state = "running";
    });
  }

  private turnEnded(event: JournalEvent): void {
    this.closeAll();
    const answer = trim(str(event, "text"));
    // A long answer is in several rows, of which only the last is compared.
    const last = this.lastText?.kind === "text" ? trim(this.lastText.text) : "";
    const isShown = this.lastText !== null && (last.endsWith(answer) || (last !== "" && answer.endsWith(last)));
    this.lastText = null;
    const took = this.header.turn_at === null ? null : this.at - this.header.turn_at;
    this.header.turn = null;
    this.header.turn_at = null;
    this.permissions.clear();
    this.automatic.clear();
    for (const { row, call } of this.calls.values()) {
      if (call.state === "running" || call.state === "waiting") {
        call.state = "unfinished";
        row.last = this.seq;
      }
    }
    const usage = this.turnUsage;
    this.turnUsage = null;
    this.push({
      kind: "turn_end", turn: str(event, "turn"), reason: str(event, "reason"), error: str(event, "error"),
      text: isShown ? "" : answer, took_ms: took, usage,
    });
  }

  private requestOpened(event: JournalEvent): void {
    const body = opened(event);
    if (event["automatic"] === true) {
      if (body.call !== null) this.automatic.set(body.request, body.call);
      return;
    }
    const parent = parentOf(event);
    this.close(parent);
    this.header.open_requests.push(body.request);
    if (body.call !== null && body.subject === "permission") this.callWaits(body.request, body.call);
    this.requests.set(body.request, this.pushRow({ key: this.seq, last: this.seq, at: this.at, parent, ...body }));
  }

  private requestSettled(event: JournalEvent): void {
    const id = str(event, "request");
    const outcome = outcomeText(event);
    const by = person(str(event, "by"));
    this.callGoesOn(id);
    this.header.open_requests = this.header.open_requests.filter((open) => open !== id);
    const row = this.requests.get(id);
    let call = this.automatic.get(id) ?? null;
    if (row === undefined && call === null) {
      this.push(info("request", permissionText(`${id} ${outcome}`, by)));
      return;
    }
    this.requests.delete(id);
    this.automatic.delete(id);
    if (row && row.kind === "request") {
      row.last = this.seq;
      row.open = false;
      row.outcome = outcome;
      row.by = by;
      row.message = str(event, "message");
      row.settled_at = this.at;
      call = row.subject === "permission" ? row.call : null;
    }
    if (call !== null) this.callPermitted(call, permissionText(outcome, by));
  }

  private todos(event: JournalEvent): void {
    const todos = list(event["todos"]).map((one): TodoRow => ({
      text: str(one, "text"), status: str(one, "status") as TodoRow["status"], description: str(one, "description"),
      active_form: str(one, "active_form"), priority: (str(one, "priority") || null) as TodoRow["priority"],
    }));
    if (JSON.stringify(todos) === JSON.stringify(this.header.todos)) return;
    this.header.todos = todos;
    const done = todos.filter((todo) => todo.status === "completed").length;
    this.push({ kind: "plan", todos, done, total: todos.length });
  }

  private worker(event: JournalEvent): void {
    const id = str(event, "worker");
    let state: CallState = "running";
    if (event.type === "worker_finished") state = event["ok"] === true ? "ok" : "failed";
    const known = this.workers.get(id);
    if (known && known.kind === "worker") {
      known.last = this.seq;
      known.state = state;
      known.summary = str(event, "summary");
    } else {
      const call = typeof event["call"] === "string" ? event["call"] : null;
      this.push({ kind: "worker", worker: id, call, title: str(event, "title"), state, summary: str(event, "summary") });
      const row = this.rows[this.rows.length - 1];
      if (row) this.workers.set(id, row);
    }
    if (state !== "running") this.workers.delete(id);
  }

  private stderr(line: string): void {
    const last = this.rows[this.rows.length - 1];
    if (last && last.kind === "notice" && last.word === "stderr" && last.text.split("\n").length < limits.STDERR_LINES_MAX) {
      last.text += `\n${line}`;
      last.last = this.seq;
      return;
    }
    this.push(info("stderr", line));
  }
}

function isFull(text: string): boolean {
  return text.length >= limits.TEXT_ROW_MAX_CHARS && chars(text) >= limits.TEXT_ROW_MAX_CHARS;
}

function num(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function added(sum: TurnUsage | null, event: JournalEvent): TurnUsage {
  const plus = (one: number, key: string) => Math.min(limits.SUM_MAX, one + (num(event[key]) ?? 0));
  return {
    input_tokens: plus(sum?.input_tokens ?? 0, "input_tokens"),
    output_tokens: plus(sum?.output_tokens ?? 0, "output_tokens"),
    cache_read_tokens: plus(sum?.cache_read_tokens ?? 0, "cache_read_tokens"),
    cost_micro_usd: plus(sum?.cost_micro_usd ?? 0, "cost_micro_usd"),
  };
}
