// The client, over any transport that sends JSON and reads lines. The same in Node and in a browser.

import {
  type Campaign,
  type NewSession,
  type ObeyEvent,
  ObeyError,
  type Overview,
  type PermissionRequest,
  type Provider,
  type Sent,
  type Session,
} from "./types.js";

/** How bytes get to a daemon and back. */
export interface Transport {
  send(path: string, headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<Answer>;
  close(): void;
}

export interface Answer {
  status: number;
  /** The body as it comes. */
  chunks: AsyncIterable<Uint8Array>;
}

export interface ClientOptions {
  /** Of a device; a program of the daemon's own user on the same machine needs none. */
  token?: string;
  /** For how long calls are sent again while the daemon is away, in milliseconds. */
  patience?: number;
}

type Json = Record<string, any>;

const PROVIDERS: Record<Provider, string> = {
  "claude-code": "SESSION_PROVIDER_CLAUDE_CODE",
  openclaw: "SESSION_PROVIDER_OPENCLAW",
  codex: "SESSION_PROVIDER_CODEX",
  "openai-api": "SESSION_PROVIDER_OPENAI_API",
  acp: "SESSION_PROVIDER_ACP",
  scripted: "SESSION_PROVIDER_SCRIPTED",
};

/** A key under which a call takes effect once, however often it is sent. */
export function newKey(): string {
  return globalThis.crypto.randomUUID();
}

export class BaseObeyClient {
  private readonly headers: Record<string, string>;
  private readonly patience: number;

  constructor(
    private readonly transport: Transport,
    options: ClientOptions = {},
  ) {
    this.headers = options.token ? { authorization: `Bearer ${options.token}` } : {};
    this.patience = options.patience ?? 30_000;
  }

  close(): void {
    this.transport.close();
  }

  async ping(): Promise<{ version: string; hostname: string }> {
    const pong = await this.call("obey.local.v1.LocalDaemonService/Ping", {});
    return { version: pong.version ?? "", hostname: pong.hostname ?? "" };
  }

  /** Registers a project folder. */
  async addCampaign(path: string, name = ""): Promise<Campaign> {
    return campaign(await this.call("obey.v1.CampaignService/AddCampaign", { path, name }));
  }

  async campaigns(): Promise<Campaign[]> {
    const answer = await this.call("obey.v1.CampaignService/ListCampaigns", {});
    return (answer.campaigns ?? []).map(campaign);
  }

  /** Finds the registered folder that contains an absolute path, the innermost first. */
  async campaignOf(path: string): Promise<Campaign> {
    const inside = (known: Campaign) => `${path}/`.startsWith(`${known.path.replace(/\/$/, "")}/`);
    const found = (await this.campaigns()).filter(inside).sort((a, b) => b.path.length - a.path.length);
    if (!found[0]) {
      throw new ObeyError(`${path} is in no registered folder; register it: obey campaign add ${path}`, "", 0, false);
    }
    return found[0];
  }

  /** Starts an agent. */
  async createSession(campaignId: string, wanted: NewSession = {}): Promise<Session> {
    const config = { ...wanted.providerConfig, ...(wanted.mode ? { permission_mode: wanted.mode } : {}) };
    const request = {
      campaign_id: campaignId,
      provider: PROVIDERS[wanted.provider ?? "claude-code"],
      model: wanted.model ?? "",
      agent_name: wanted.name ?? "",
      max_tokens: wanted.maxTokens ?? 0,
      provider_config: config,
    };
    const key = { "x-obey-client-key": wanted.key ?? newKey() };
    const answer = await this.call("obey.local.v1.LocalDaemonService/CreateSession", request, key);
    return session(answer.session ?? {});
  }

  async session(sessionId: string): Promise<Session> {
    return session(await this.call("obey.local.v1.LocalDaemonService/GetSession", { session_id: sessionId }));
  }

  /** Who needs somebody, who failed, who works: the order of `obey ps`. */
  async overview(includeEnded = false): Promise<Overview[]> {
    const request = { filter: { include_ended: includeEnded } };
    const answer = await this.call("obey.v1.OverviewService/List", request);
    return (answer.sessions ?? []).map(overview);
  }

  async stop(sessionId: string, graceful = true): Promise<Session> {
    const request = { session_id: sessionId, graceful };
    return session((await this.call("obey.local.v1.LocalDaemonService/StopSession", request)).session ?? {});
  }

  /** Sends a prompt; resolves once it is on disk. With `steer` it joins the running turn, with `queue` it waits. */
  async send(
    sessionId: string,
    text: string,
    how: { steer?: boolean; queue?: boolean; key?: string } = {},
  ): Promise<Sent> {
    const answer = await this.call("obey.v1.TurnService/Prompt", {
      session_id: sessionId,
      text,
      steer: how.steer ?? false,
      queue: how.queue ?? false,
      client_key: how.key ?? newKey(),
    });
    return { turnId: answer.turn_id ?? "", seq: Number(answer.seq ?? 0), queued: answer.queued ?? "" };
  }

  /** Interrupts the running turn; false: none was running. */
  async cancel(sessionId: string): Promise<boolean> {
    const request = { session_id: sessionId, client_key: newKey() };
    return (await this.call("obey.v1.TurnService/CancelTurn", request)).cancelled ?? false;
  }

  /**
   * Yields events after a number, then with `follow` live ones until the session ends. A connection that breaks is made
   * again and goes on with the next number: no event is missed or repeated. Keep the `seq` of the last one to go on in
   * another process.
   */
  async *events(
    sessionId: string,
    { after = 0, follow = true, limit = 0 }: { after?: number; follow?: boolean; limit?: number } = {},
  ): AsyncGenerator<ObeyEvent, void, void> {
    let [last, seen, until] = [after, 0, Date.now() + this.patience];
    for (;;) {
      const cut = new AbortController();
      try {
        const request = { session_id: sessionId, after_seq: last, follow, limit: limit ? limit - seen : 0 };
        const method = "obey.v1.EventService/ReadEvents";
        const accept = { accept: "application/x-ndjson" };
        const answer = await this.once(method, request, accept, cut.signal);
        for await (const line of lines(answer.chunks)) {
          const message: Json = JSON.parse(line);
          if (message.error !== undefined) throw refusal(message, 200);
          const found = event(message);
          [last, seen, until] = [found.seq, seen + 1, Date.now() + this.patience];
          yield found;
        }
        return;
      } catch (error) {
        if (!(error instanceof ObeyError) || !error.retryable || Date.now() > until) throw error;
      } finally {
        cut.abort();
      }
      if (limit && seen >= limit) return;
      await pause();
    }
  }

  /** What waits for an answer; without a session, in all of them. */
  async requests(sessionId = "", includeSettled = false): Promise<PermissionRequest[]> {
    const request = { session_id: sessionId, include_settled: includeSettled };
    const answer = await this.call("obey.v1.RequestService/ListRequests", request);
    return (answer.requests ?? []).map(permissionRequest);
  }

  /** Allows what an agent wants to do, and remembers it for the session if asked. False: somebody answered first. */
  async allow(request: PermissionRequest, how: { remember?: boolean; grant?: string } = {}): Promise<boolean> {
    const decision = how.remember ? "DECISION_ALLOW_SESSION" : "DECISION_ALLOW_ONCE";
    return this.decide(request, { decision, grant: how.grant ?? "" });
  }

  /** Denies it and tells the agent why; `stop` also ends the turn. */
  async deny(request: PermissionRequest, message = "", how: { stop?: boolean } = {}): Promise<boolean> {
    return this.decide(request, { decision: how.stop ? "DECISION_DENY_AND_STOP" : "DECISION_DENY", message });
  }

  /** Answers an agent's questions: question id or text to answer. */
  async answer(request: PermissionRequest, answers: Record<string, string>): Promise<boolean> {
    const message = { session_id: request.sessionId, request_id: request.id, answers, client_key: newKey() };
    return (await this.call("obey.v1.RequestService/AnswerQuestion", message)).settled_by_this_answer ?? false;
  }

  private async decide(request: PermissionRequest, decision: Json): Promise<boolean> {
    const message = { session_id: request.sessionId, request_id: request.id, client_key: newKey(), ...decision };
    return (await this.call("obey.v1.RequestService/AnswerPermission", message)).settled_by_this_answer ?? false;
  }

  /** Makes a call, again while the daemon is away; what changes something has a key. */
  private async call(method: string, request: Json, headers: Record<string, string> = {}): Promise<Json> {
    const until = Date.now() + this.patience;
    for (;;) {
      try {
        return JSON.parse((await text(await this.once(method, request, headers))) || "{}");
      } catch (error) {
        if (!(error instanceof ObeyError) || !error.retryable || Date.now() > until) throw error;
      }
      await pause();
    }
  }

  private async once(
    method: string,
    request: Json,
    headers: Record<string, string>,
    signal?: AbortSignal,
  ): Promise<Answer> {
    const all = { "content-type": "application/json", ...this.headers, ...headers };
    let answer: Answer;
    try {
      answer = await this.transport.send(`/${method}`, all, JSON.stringify(request), signal);
    } catch (error) {
      throw new ObeyError(`the daemon cannot be reached: ${String(error)}`, "", 0, true);
    }
    if (answer.status === 200) return { status: 200, chunks: whole(answer.chunks) };
    let said: Json = {};
    try {
      said = JSON.parse(await text(answer));
    } catch {
      // Not from obey; the status is all there is.
    }
    throw refusal(said, answer.status);
  }
}

/** A body that breaks is a daemon that is away. */
async function* whole(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw new ObeyError(`the connection was cut: ${String(error)}`, "", 0, true);
  }
}

async function text(answer: Answer): Promise<string> {
  const decoder = new TextDecoder();
  let all = "";
  for await (const chunk of answer.chunks) all += decoder.decode(chunk, { stream: true });
  return all + decoder.decode();
}

async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part.trim()) yield part;
  }
  if (rest.trim()) yield rest;
}

function refusal(said: Json, status: number): ObeyError {
  const nested = typeof said.error === "object" && said.error !== null ? said.error : said;
  const message = String(nested.message ?? nested.error ?? `HTTP ${status}`);
  const retryable = Boolean(nested.retryable ?? said.retryable ?? (status === 502 || status === 503));
  return new ObeyError(message, String(nested.code ?? ""), Number(nested.status ?? status), retryable);
}

function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, 50 + Math.random() * 100));
}

function campaign(message: Json): Campaign {
  return { id: message.id ?? "", name: message.name ?? "", path: message.path ?? "" };
}

function session(message: Json): Session {
  return {
    id: message.id ?? "",
    name: message.agent_name ?? "",
    status: word(message.status, "SESSION_STATUS_"),
    model: message.model ?? "",
    campaignId: message.campaign_id ?? "",
    workingDir: message.working_dir ?? "",
    error: message.error_message ?? "",
  };
}

function overview(message: Json): Overview {
  return {
    sessionId: message.session_id ?? "",
    name: message.name ?? "",
    state: word(message.state, "SESSION_STATE_") as Overview["state"],
    reason: message.reason ?? "",
    lastSeq: Number(message.last_seq ?? 0),
  };
}

function event(message: Json): ObeyEvent {
  return {
    seq: Number(message.seq),
    type: message.type ?? "",
    at: message.at ?? "",
    sessionId: message.session_id ?? "",
    data: message.json ? JSON.parse(message.json) : {},
  };
}

function permissionRequest(message: Json): PermissionRequest {
  const question = (asked: Json) => ({
    id: asked.id ?? "",
    text: asked.text ?? "",
    options: (asked.options ?? []).map((option: Json) => option.label ?? ""),
  });
  const proposal = (offered: Json) => ({ id: offered.id ?? "", text: offered.text ?? "" });
  return {
    id: message.id ?? "",
    sessionId: message.session_id ?? "",
    kind: word(message.kind, "REQUEST_KIND_") as PermissionRequest["kind"],
    tool: message.tool_name ?? "",
    title: message.title ?? "",
    input: message.input_json ? JSON.parse(message.input_json) : {},
    questions: (message.questions ?? []).map(question),
    proposals: (message.proposals ?? []).map(proposal),
    outcome: message.outcome ?? "",
    settledBy: message.settled_by ?? "",
  };
}

function word(value: unknown, prefix: string): string {
  return String(value ?? `${prefix}UNSPECIFIED`).replace(prefix, "").toLowerCase();
}
