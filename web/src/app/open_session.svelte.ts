// The session that is open: its newest events first, older ones when somebody scrolls back, every event once.
import { Transcript } from "../fold/transcript.ts";
import type { JournalEvent } from "../fold/row.ts";
import { CallError, readEvents } from "../wire/call.ts";
import type { Plan } from "../wire/types.ts";

/** Newest events that are read when a session is opened: some screens full. */
const TAIL_EVENTS = 500;
/** Events that are read at once when somebody scrolls back. */
const BACK_EVENTS = 1_000;
/** Events of one answer of the daemon. */
const PAGE_EVENTS = 2_000;

export class OpenSession {
  transcript = new Transcript();
  /** Counts changes, so that what shows the transcript knows of them. */
  version = $state(0);
  problem = $state("");
  loading = $state(true);
  /** Events up to this one were removed by retention; 0: none that is known. */
  removedThrough = $state(0);
  /** Whether an event that was read says if a turn runs. */
  knowsTurn = false;
  /** The events of the fold, kept to put older ones in front. */
  private events: JournalEvent[] = [];
  /** The plans whose steps run as workers of this session, by their ids. */
  plans: Record<string, Plan> = $state.raw({});
  private first = 0;
  private reading: Promise<void> | null = null;

  /** The machine on which it is; "": the page's own. */
  constructor(
    readonly id: string,
    public home = "",
  ) {}

  cursor(): number | { tail: number } {
    return this.first === 0 ? { tail: TAIL_EVENTS } : this.transcript.header.last_seq;
  }

  start(after: number): void {
    if (this.first !== 0) return;
    this.first = after + 1;
    this.transcript.startAfter(after);
  }

  /** Begins anew: the journal is not the one the page had read. */
  reset(): void {
    this.transcript = new Transcript();
    this.events = [];
    this.first = 0;
    this.knowsTurn = false;
    this.removedThrough = 0;
  }

  add(events: JournalEvent[]): void {
    for (const event of events) if (this.transcript.apply(event)) this.keep(event);
    this.loading = false;
    this.problem = "";
  }

  private keep(event: JournalEvent): void {
    this.events.push(event);
    if (event.type === "turn_started" || event.type === "turn_ended" || event.seq === 1) this.knowsTurn = true;
  }

  /** Takes a plan as it is now; an older state never replaces a newer one. */
  takePlan(plan: Plan): void {
    if ((this.plans[plan.id]?.last_seq ?? -1) <= plan.last_seq) this.plans = { ...this.plans, [plan.id]: plan };
  }

  /** Takes note that the stream skipped events that retention removed. */
  skipped(after: number, next: number): void {
    // What was removed before the first event that is shown is said once, above it.
    if (this.events.length === 0) {
      this.transcript = new Transcript();
      this.first = next;
      this.transcript.startAfter(next - 1);
    }
    if (after < this.first) this.removedThrough = next - 1;
    this.loading = false;
  }

  hasOlder(): boolean {
    return this.first > this.removedThrough + 1;
  }

  /** Reads events before the first, back to one if it is named, and folds all again: the rows are the same as if these events
   * had been there from the beginning. One at a time: scrolling asks again and again. */
  back(toSeq = 0): Promise<void> {
    if (this.reading !== null && toSeq === 0) return this.reading;
    const reading = (this.reading ?? Promise.resolve()).then(() => this.readBack(toSeq));
    this.reading = reading.finally(() => (this.reading = null));
    return this.reading;
  }

  private async readBack(toSeq: number): Promise<void> {
    if (!this.hasOlder() || (toSeq > 0 && toSeq >= this.first)) return;
    const { transcript } = this;
    try {
      const wanted = this.first - 1 - BACK_EVENTS;
      const after = Math.max(this.removedThrough, 0, toSeq > 0 ? Math.min(toSeq - 50, wanted) : wanted);
      const older: JournalEvent[] = [];
      let from = after;
      let removed = this.removedThrough;
      while (from < this.first - 1) {
        const page = await readEvents<{ events: JournalEvent[]; removed_through?: number }>(this.id, from, Math.min(PAGE_EVENTS, this.first - 1 - from));
        removed = Math.max(removed, page.removed_through ?? 0);
        const last = page.events[page.events.length - 1];
        if (last === undefined) break;
        for (const event of page.events) if (event.seq < this.first) older.push(event);
        from = last.seq;
      }
      // A session that was reset meanwhile has other events.
      if (this.transcript !== transcript) return;
      this.removedThrough = removed;
      this.events = older.concat(this.events);
      this.first = older[0]?.seq ?? Math.max(1, Math.min(this.first, removed + 1));
      const again = new Transcript();
      again.startAfter(this.first - 1);
      for (const event of this.events) again.apply(event);
      this.knowsTurn ||= older.some((event) => event.type === "turn_started" || event.type === "turn_ended" || event.seq === 1);
      this.transcript = again;
      this.version += 1;
    } catch (error) {
      // The daemon refuses: what is there is shown. A broken connection is tried again with the next scrolling.
      if (error instanceof CallError) this.removedThrough = this.first - 1;
    }
  }
}
