// The rows of a transcript: plain data, the same as `crates/view/src/row.rs` declares, field by field and in its order.

/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** An event of a journal as the daemon sends it. */
export interface JournalEvent {
  seq: number;
  at: string;
  type: string;
  [field: string]: unknown;
}

export type CallState = "running" | "waiting" | "ok" | "failed" | "unfinished";

export interface CallRow {
  call: string;
  seq: number;
  tool: string;
  kind: string;
  text: string;
  input: Json;
  state: CallState;
  output: string;
  output_omitted: number;
  started: number;
  took_ms: number | null;
  permission: string;
}

export interface DiffLine {
  mark: "+" | "-" | " " | "@";
  text: string;
}

export interface FileChange {
  path: string;
  added: number;
  removed: number;
  lines: DiffLine[];
  omitted: number;
}

export interface TodoRow {
  text: string;
  status: "pending" | "in_progress" | "completed";
  /** At length; "" if the agent does not say. */
  description: string;
  /** The words for it while it is in progress; "" if the agent does not say. */
  active_form: string;
  priority: "high" | "medium" | "low" | null;
}

export interface QuestionRow {
  id: string;
  header: string;
  text: string;
  options: { label: string; description: string }[];
  multi_select: boolean;
}

export interface TurnUsage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cost_micro_usd: number;
}

export interface RequestBody {
  kind: "request";
  request: string;
  subject: "permission" | "question" | "client_tool";
  call: string | null;
  tool: string;
  text: string;
  input: Json;
  files: FileChange[];
  questions: QuestionRow[];
  proposals: { id: string; text: string }[];
  destructive: string;
  not_covered: string;
  open: boolean;
  outcome: string;
  by: string;
  message: string;
  settled_at: number | null;
}

export type RowBody =
  | { kind: "prompt"; turn: string; origin: string; added: boolean; text: string; by: string; attachments: { name: string; media_type: string }[] }
  | { kind: "text"; text: string; closed: boolean }
  | { kind: "thinking"; text: string; closed: boolean }
  | { kind: "calls"; summary: string; calls: CallRow[]; closed: boolean }
  | { kind: "edit"; call: CallRow; files: FileChange[] }
  | { kind: "plan"; todos: TodoRow[]; done: number; total: number }
  | RequestBody
  | { kind: "turn_end"; turn: string; reason: string; error: string; text: string; took_ms: number | null; usage: TurnUsage | null }
  | { kind: "compaction"; tokens_before: number | null; tokens_after: number | null; summary: string }
  | { kind: "worker"; worker: string; call: string | null; title: string; state: CallState; summary: string }
  | { kind: "activity"; activity: string; agent_name: string; tool: string; content: string; ok: boolean }
  | { kind: "notice"; word: string; level: "info" | "warning" | "error"; code: string; text: string }
  | { kind: "gap"; from: number; to: number };

/** A row. Its key never changes, and it only grows until it is closed. */
export type Row = { key: number; last: number; at: number; parent: string | null } & RowBody;

/** What is known of a session as a whole. */
export interface SessionHeader {
  name: string;
  provider: string;
  model: string;
  mode: string;
  folder: string;
  status: string;
  turn: string | null;
  turn_at: number | null;
  planning: boolean;
  todos: TodoRow[];
  usage: TurnUsage | null;
  context_tokens: number | null;
  context_window: number | null;
  open_requests: string[];
  commands: string[];
  input_holder: string | null;
  first_seq: number;
  last_seq: number;
}
