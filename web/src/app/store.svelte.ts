// What the page knows: who it is, how it is connected, all sessions at a glance, and the session that is open. Everything
// comes from the daemon; only what a person has looked at or typed is kept in the browser.
import type { JournalEvent } from "../fold/row.ts";
import { OpenSession } from "./open_session.svelte.ts";
import { call, CallError, key, login, setKey, whenAskedForHome, whenSignedOut } from "../wire/call.ts";
import { Live, type Cursors, type LiveState } from "../wire/live.ts";
import type { StreamEvent } from "../wire/sse.ts";
import type { Caller, OtherMachine, OverviewUpdate, Plan, SessionOverview } from "../wire/types.ts";

type Sessions = Record<string, SessionOverview>;

class Store {
  caller: Caller | null = $state(null);
  live: LiveState = $state({ kind: "connecting" });
  /** All sessions of all machines that have not ended; replaced as a whole, so that hundreds of them cost little. */
  sessions: Sessions = $state.raw({});
  /** The machines that this one is paired with. */
  machines: OtherMachine[] = $state.raw([]);
  hasOverview = $state(false);
  open: OpenSession | null = $state.raw(null);
  now = $state(Date.now());
  message = $state("");
  notice = $state("");
  /** The daemon serves another build of the page than this one. */
  newBuild = $state(false);
  private stream: Live | null = null;
  private build = "";
  private own: Sessions = {};
  private elsewhere: Record<string, Sessions> = {};
  /** Where sessions are that no overview has, such as those that have ended. */
  private homes: Record<string, string> = {};

  get canAct(): boolean {
    return this.caller !== null && this.caller.kind !== "page" && this.caller.role !== "viewer";
  }

  get canAdminister(): boolean {
    return this.caller !== null && this.caller.kind !== "page" && this.caller.role === "owner";
  }

  /** Whether this page may act on a session: the machine on which it is has a say, too. */
  canActOn(session: string): boolean {
    return this.canAct && this.machineOf(session)?.role !== "viewer";
  }

  canAdministerOn(session: string): boolean {
    const there = this.machineOf(session);
    return this.canAdminister && (there === null || there.role === "owner");
  }

  /** Returns the machine on which a session is; null: this one. */
  machineOf(session: string): OtherMachine | null {
    const shown = this.sessions[session];
    const home = shown ? (shown.home ?? "") : (this.homes[session] ?? "");
    return home === "" ? null : (this.machines.find((one) => one.id === home) ?? { id: home, name: home, role: "viewer", state: "gone", message: "" });
  }

  private homeOf(session: string): string {
    const shown = this.sessions[session];
    return shown ? (shown.home ?? "") : (this.homes[session] ?? "");
  }

  /** Remembers where sessions are that no overview has. */
  noteHome(session: string, machine: string): void {
    if (machine !== "") this.homes[session] = machine;
  }

  /** Calls a method on this machine and on all others that are there. Those that do not answer are left out. */
  async everywhere<T>(method: string, request: object): Promise<{ machine: OtherMachine | null; answer: T }[]> {
    const others = this.machines.filter((one) => one.state === "live");
    const calls = [null, ...others].map(async (machine) => ({ machine, answer: await call<T>(method, request, { machine: machine?.id ?? "" }) }));
    const settled = await Promise.allSettled(calls);
    // This machine's own answer counts: what went wrong there is said.
    if (settled[0]?.status === "rejected") throw settled[0].reason;
    return settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  }

  /** Whether the daemon has a service, such as "SearchService": what it has not is not shown. */
  has(service: string): boolean {
    return this.caller?.services?.includes(`obey.v1.${service}`) ?? false;
  }

  async start(): Promise<void> {
    whenSignedOut(() => this.signedOut());
    whenAskedForHome((session) => this.homeOf(session));
    const problem = await login();
    if (problem !== null) this.say(problem);
    // Both at once: what is shown does not wait for who looks.
    void this.identify();
    this.stream = new Live({ wanted: () => this.wanted(), take: (events) => this.take(events), state: (state) => this.setLive(state) });
    window.setInterval(() => (this.now = Date.now()), 1_000);
  }

  private async identify(): Promise<void> {
    try {
      this.caller = await call<Caller>("obey.v1.PageService/GetCaller");
      this.noteBuild(this.caller.build);
    } catch (error) {
      if (error instanceof CallError && error.status === 401) this.signedOut();
    }
  }

  /** Takes note of the build that the daemon serves: the first one told of is this page's. */
  private noteBuild(build: string): void {
    this.build ||= build;
    if (build !== this.build) this.newBuild = true;
  }

  /** Says what went wrong. */
  say(text: string): void {
    this.message = text;
  }

  /** Says what was done. */
  note(text: string): void {
    this.notice = text;
  }

  private setLive(state: LiveState): void {
    const before = this.live;
    if (before.kind === state.kind && !("since" in state)) return;
    this.live = state;
    if (state.kind === "live" && this.caller === null) void this.identify();
  }

  private signedOut(): void {
    setKey(null);
    this.live = { kind: "signed_out" };
    this.caller = this.caller === null ? null : { ...this.caller, kind: "page", name: "", role: "viewer" };
    // Without a key there is this machine only.
    this.machines = [];
    this.elsewhere = {};
    this.merge();
  }

  /** Follows a session from now on. */
  follow(id: string | null): void {
    if (this.open?.id === (id ?? undefined)) return;
    this.open = id === null ? null : new OpenSession(id, this.homeOf(id));
    if (this.live.kind !== "signed_out") this.stream?.open();
  }

  private wanted(): { sessions: Cursors; overview: boolean; machines: Record<string, Cursors> | null } {
    const { open } = this;
    const cursors = open ? { [open.id]: open.cursor() } : {};
    const home = open?.home ?? "";
    const machines = home === "" ? {} : { [home]: cursors };
    return { sessions: home === "" ? cursors : {}, overview: true, machines: key() !== null && (this.caller === null || this.canAct) ? machines : null };
  }

  private take(events: StreamEvent[]): void {
    let changed = false;
    for (const { event: kind, data } of events) {
      let event = kind;
      let value = JSON.parse(data) as Record<string, unknown>;
      /** The machine that says so; "": this one. */
      let from = "";
      if (kind === "machine") {
        from = String(value["machine"]);
        event = String(value["event"]);
        value = value["data"] as Record<string, unknown>;
      }
      const open = this.open !== null && value["session"] === this.open.id && this.open.home === from ? this.open : null;
      if (event === "hello") this.hello(value, from);
      else if (event === "machine_state" && from === "") this.machineState(value as { machine: string; state: string; message: string });
      else if (event === "overview") this.overview(value as unknown as OverviewUpdate, from);
      else if (event === "events" && open) open.add(value["events"] as JournalEvent[]);
      else if (event === "caught_up" && open) open.loading = false;
      else if (event === "gap" && open) open.skipped(Number(value["after"]), Number(value["next"]));
      else if (event === "plan" && open) open.takePlan(value["plan"] as Plan);
      else if (event === "failed" && open) open.problem = String(value["message"]);
      changed ||= open !== null;
    }
    if (changed && this.open) this.open.version += 1;
  }

  private hello(value: Record<string, unknown>, from: string): void {
    if (from === "") {
      this.noteBuild(String(value["build"]));
      if (typeof value["machines_problem"] === "string") this.say(`The other machines cannot be listed: ${value["machines_problem"]}`);
      this.setMachines((value["machines"] ?? []) as OtherMachine[]);
    }
    const { open } = this;
    if (!open || open.home !== from) return;
    const verdict = (value["sessions"] as Record<string, { verdict: string; after: number; message: string }>)[open.id];
    if (!verdict) return;
    if (verdict.verdict === "missing") {
      if (from === "" && this.machines.length > 0) void this.lookElsewhere(open, verdict.message);
      else {
        open.problem = verdict.message;
        open.loading = false;
      }
    } else {
      if (verdict.verdict === "reset") open.reset();
      open.start(verdict.after);
    }
  }

  /** Looks for a session that this machine does not have on the others, also among those that have ended. */
  private async lookElsewhere(open: OpenSession, message: string): Promise<void> {
    const looks = this.machines.map(async ({ id }) => {
      const { sessions } = await call<{ sessions: SessionOverview[] }>("obey.v1.OverviewService/List", { filter: { include_ended: true } }, { machine: id });
      if (!sessions.some((one) => one.session_id === open.id)) throw new Error("not there");
      return id;
    });
    const home = await Promise.any(looks).catch(() => "");
    if (this.open !== open) return;
    if (home === "") {
      open.problem = message;
      open.loading = false;
      return;
    }
    this.noteHome(open.id, home);
    open.home = home;
    this.stream?.open();
  }

  private setMachines(listed: OtherMachine[]): void {
    const known = new Map(this.machines.map((one) => [one.id, one]));
    this.machines = listed.map((one) => known.get(one.id) ?? { ...one, state: "connecting", message: "" });
    for (const id of Object.keys(this.elsewhere)) if (!this.machines.some((one) => one.id === id)) delete this.elsewhere[id];
    this.merge();
  }

  /** Takes note that a machine came or went. Sessions of one that is gone are not shown as if they were live. */
  private machineState({ machine, state, message }: { machine: string; state: string; message: string }): void {
    const isGone = state === "gone";
    this.machines = this.machines.map((one) => (one.id === machine ? { ...one, state: isGone ? "gone" : "live", message } : one));
    if (isGone) {
      for (const id of Object.keys(this.elsewhere[machine] ?? {})) this.homes[id] = machine;
      delete this.elsewhere[machine];
      this.merge();
    } else if (state === "back" && this.open?.home === machine) {
      // Only the page knows which events it has.
      this.stream?.open();
    }
  }

  private overview(update: OverviewUpdate, from: string): void {
    const machine = this.machines.find((one) => one.id === from);
    if (from !== "" && machine === undefined) return;
    const sessions = update.snapshot ? {} : { ...(from === "" ? this.own : this.elsewhere[from]) };
    // A machine is called as it is here, whatever it says of itself.
    for (const one of update.sessions) sessions[one.session_id] = machine ? { ...one, home: from, machine: machine.name } : one;
    for (const id of update.removed) {
      if (from !== "" && sessions[id]) this.noteHome(id, from);
      delete sessions[id];
    }
    if (from === "") {
      this.own = sessions;
      this.hasOverview = true;
    } else {
      this.elsewhere[from] = sessions;
    }
    this.merge();
  }

  /** Puts the sessions of all machines together. No machine can take the place of another one's session, least of all of this one's. */
  private merge(): void {
    const others = Object.values(this.elsewhere).toReversed();
    this.sessions = others.length === 0 ? this.own : Object.assign({}, ...others, this.own);
  }

  /** Calls a method and says what went wrong. Returns nothing then. */
  async act<T>(method: string, request: object, machine?: string): Promise<T | null> {
    try {
      this.message = "";
      this.notice = "";
      return await call<T>(method, request, machine === undefined ? {} : { machine });
    } catch (error) {
      this.say(error instanceof Error ? `${error instanceof CallError && error.code !== "" ? `${error.code}: ` : ""}${error.message}` : String(error));
      return null;
    }
  }
}

export const store = new Store();
