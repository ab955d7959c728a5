// Calls of `obey.v1` as JSON, with the page's key. The key is in this tab only and is sent as a header, never in an address.

const KEY = "obey-key";

/** An error of the daemon, with its OBEY code. */
export class CallError extends Error {
  readonly code: string;
  readonly status: number;

  constructor(message: string, code: string, status: number) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

let memory: string | null = null;

/** Returns the page's key, if it has one. */
export function key(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    // A browser without storage: the key lives as long as the page.
    return memory;
  }
}

/** Keeps or forgets the page's key. */
export function setKey(value: string | null): void {
  memory = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // As above.
  }
}

export function headers(): Record<string, string> {
  const own = key();
  return own === null ? {} : { authorization: `Bearer ${own}` };
}

/** What is told of a key that no longer works. */
export let onSignedOut: () => void = () => {};
export function whenSignedOut(then: () => void): void {
  onSignedOut = then;
}

/** Tells on which machine a session is; "": on the page's own. */
let homeOf: (session: string) => string = () => "";
export function whenAskedForHome(tell: (session: string) => string): void {
  homeOf = tell;
}

interface CallOptions {
  signal?: AbortSignal;
  /** The machine that is called; unset: that of the session which the request names. "": the page's own. */
  machine?: string;
}

/** Returns where a method is called: at the page's own machine, or through it at the one where the session is. */
function addressOf(method: string, request: object, machine?: string): string {
  const named = request as { session_id?: string; tree?: { session_id?: string } };
  const home = machine ?? homeOf(named.session_id ?? named.tree?.session_id ?? "");
  return home === "" ? `/${method}` : `/api/machines/${encodeURIComponent(home)}/${method}`;
}

/** Calls a method, such as "obey.v1.TurnService/Prompt". */
export async function call<T>(method: string, request: object = {}, { signal, machine }: CallOptions = {}): Promise<T> {
  const response = await fetch(addressOf(method, request, machine), {
    method: "POST",
    headers: { "content-type": "application/json", ...headers() },
    body: JSON.stringify(request),
    cache: "no-store",
    ...(signal ? { signal } : {}),
  });
  return answered(response);
}

/** Reads a list of events that are not in the live stream any more. */
export async function readEvents<T>(session: string, after: number, limit: number): Promise<T> {
  const query = `after=${after}&limit=${limit}&follow=false`;
  const home = homeOf(session);
  const at = home === "" ? "/api" : `/api/machines/${encodeURIComponent(home)}`;
  const response = await fetch(`${at}/sessions/${encodeURIComponent(session)}/events?${query}`, {
    headers: { accept: "application/json", ...headers() },
    cache: "no-store",
  });
  return answered(response);
}

async function answered<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  const body = (await response.json().catch(() => ({}))) as { error?: string; code?: string };
  const message = body.error ?? `the daemon answered ${response.status}`;
  if (response.status === 401 && key() !== null) onSignedOut();
  throw new CallError(message, body.code ?? "", response.status);
}

/** Exchanges the code behind the `#` of the address for a key. The code leaves the address before anything is sent. */
export async function login(): Promise<string | null> {
  const found = /^#(?:k|pair)=([0-9a-f]{32})$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    const given = await call<{ key: string }>("obey.v1.PageService/Login", { code: found[1] });
    setKey(given.key);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Reads a method that streams, to its end. */
export async function collect<T>(method: string, request: object = {}): Promise<T[]> {
  const response = await fetch(addressOf(method, request), {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/x-ndjson", ...headers() },
    body: JSON.stringify(request),
    cache: "no-store",
  });
  if (!response.ok) return answered(response);
  const lines = (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line) as T & { error?: string; code?: string });
  const last = lines[lines.length - 1];
  if (last?.error !== undefined && last.code !== undefined) throw new CallError(last.error, last.code, 0);
  return lines;
}
