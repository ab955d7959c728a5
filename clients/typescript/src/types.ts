// What calls return. Names of fields are those of the .proto files; numbers that may be large may come as strings in JSON and
// are numbers here.

/** A registered project folder. */
export interface Campaign {
  id: string;
  name: string;
  path: string;
}

/** The agents that a session can run. */
export type Provider = "claude-code" | "openclaw" | "codex" | "openai-api" | "acp" | "scripted";

/** A conversation with one agent in one folder. */
export interface Session {
  id: string;
  name: string;
  status: string;
  model: string;
  campaignId: string;
  workingDir: string;
  error: string;
}

/** A session as lists show it. */
export interface Overview {
  sessionId: string;
  name: string;
  state: "needs_you" | "failed" | "working" | "quiet" | "done" | "idle" | "ended" | "unspecified";
  reason: string;
  lastSeq: number;
}

/** One entry of a session's journal. Numbers start at 1 and have no gaps. */
export interface ObeyEvent {
  seq: number;
  type: string;
  at: string;
  sessionId: string;
  /** The fields of this type, such as `text` of a `text_delta`. */
  data: Record<string, unknown>;
}

/** A permission or a question that waits for an answer. */
export interface PermissionRequest {
  id: string;
  sessionId: string;
  kind: "permission" | "question" | "unspecified";
  tool: string;
  title: string;
  input: unknown;
  questions: { id: string; text: string; options: string[] }[];
  /** What may be remembered with an allowance. */
  proposals: { id: string; text: string }[];
  /** Empty while it waits. */
  outcome: string;
  settledBy: string;
}

/** A prompt that the daemon has stored. */
export interface Sent {
  /** Empty while it waits in the queue. */
  turnId: string;
  /** The number of the event that records it: follow from the one before. */
  seq: number;
  queued: string;
}

export interface NewSession {
  provider?: Provider;
  model?: string;
  name?: string;
  mode?: string;
  maxTokens?: number;
  providerConfig?: Record<string, string>;
  /** The same key with the same arguments is the same session, however often it is sent. */
  key?: string;
}

/** A call that the daemon refused, or that could not be made. */
export class ObeyError extends Error {
  constructor(
    message: string,
    /** Such as OBEY-2001; `obey explain` describes it. Empty: not from obey. */
    readonly code: string,
    /** The HTTP status; 0: there was no answer. */
    readonly status: number,
    readonly retryable: boolean,
  ) {
    super(code ? `${code}: ${message}` : message);
    this.name = "ObeyError";
  }
}
