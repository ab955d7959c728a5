// What the daemon answers, as far as the page reads it; names and types are those of `proto/obey/v1`.

export interface OverviewRequest {
  request_id: string;
  kind: string;
  tool: string;
  text: string;
  asked_at: string | null;
}

export interface SessionOverview {
  session_id: string;
  name: string;
  campaign: string;
  campaign_id: string;
  folder: string;
  branch: string;
  provider: string;
  model: string;
  mode: string;
  state: string;
  cause: string;
  reason: string;
  since: string | null;
  requests: OverviewRequest[];
  last_line: string;
  tokens?: number | null;
  cost_micro_usd?: number | null;
  budget?: { max_tokens?: number | null; tokens_left?: number | null; ends_at?: string | null } | null;
  todos_done: number;
  todos_all: number;
  machine: string;
  status: string;
  last_seq: number;
  parent_id: string;
  /** The machine on which it is, as the page is told; unset: the page's own. */
  home?: string;
}

/** Another machine that the page's own is paired with. */
export interface OtherMachine {
  id: string;
  name: string;
  /** What the page's own machine may do there. */
  role: string;
  state: "connecting" | "live" | "gone";
  /** Why it is gone. */
  message: string;
}

export interface OverviewUpdate {
  revision: number;
  snapshot: boolean;
  sessions: SessionOverview[];
  removed: string[];
  machine: string;
}

export interface Proposal {
  id: string;
  text: string;
}

export interface Question {
  id: string;
  header: string;
  text: string;
  options: { label: string; description: string }[];
  multi_select: boolean;
}

export interface Request {
  id: string;
  session_id: string;
  kind: string;
  tool_name: string;
  input_json: string;
  title: string;
  questions: Question[];
  asked_at: string | null;
  settled_by: string;
  outcome: string;
  proposals: Proposal[];
  destructive: string;
  not_covered: string;
}

export interface Caller {
  kind: string;
  name: string;
  role: string;
  version: string;
  build: string;
  machine: string;
  /** The services that the daemon has; an older one does not say. */
  services?: string[];
}

export interface PlanStepState {
  step: { id: string; name: string; prompt: string; provider: string; depends_on: string[] } | null;
  /** `waiting`, `running`, `succeeded`, `failed`, `cancelled`, `blocked` or `skipped`. */
  state: string;
  session_id: string;
  attempts: number;
  text: string;
}

/** A plan whose steps run as workers of a session. */
export interface Plan {
  id: string;
  strategy: string;
  /** `running`, `completed` or `failed`. */
  state: string;
  steps: PlanStepState[];
  cancelled: string;
  last_seq: number;
}

export interface InstalledAgent {
  name: string;
  provider: string;
  /** `installed`, `built_in` or `missing`. */
  state: string;
  version: string;
  remedy: string;
  models: string[];
}

export interface Grant {
  id: string;
  what: string;
  where_text: string;
  given_by: string;
  session_id?: string;
}

export interface Campaign {
  id: string;
  name: string;
  path: string;
}

export interface Device {
  id: string;
  name: string;
  role: string;
  proof: string;
  added_at: string | null;
  expires_at: string | null;
  seen_at: string | null;
  seen_from: string;
}
