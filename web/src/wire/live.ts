// The one live stream of a visible tab: it is opened with the exact events that the page has, opened again whenever it
// breaks, and closed while nobody looks: of all hidden tabs one keeps the overview, for the title and for notices. What arrives is collected and handed over once per frame of the screen.
import { headers, key, onSignedOut } from "./call.ts";
import { EventParser, type StreamEvent } from "./sse.ts";

export type LiveState =
  | { kind: "live" }
  | { kind: "connecting" }
  | { kind: "reconnecting"; since: number }
  | { kind: "gone"; since: number }
  | { kind: "signed_out" }
  | { kind: "resting" };

/** What the page follows: for each session the last event it has, or how many of the newest it wants. */
export type Cursors = { [session: string]: number | { tail: number } };

interface Options {
  /** Returns what to follow, each time the stream is opened. */
  wanted: () => { sessions: Cursors; overview: boolean; machines: { [machine: string]: Cursors } | null };
  /** Takes what arrived since the last frame. */
  take: (events: StreamEvent[]) => void;
  state: (state: LiveState) => void;
}

const DEAD_AFTER_MS = 40_000;
const STALE_AFTER_MS = 20_000;
const HIDDEN_AFTER_MS = 10_000;
const GONE_AFTER_MS = 10_000;
/** An attempt that has no answer by then is given up: what it reached may have died since, and says nothing any more. */
const ANSWER_AFTER_MS = 8_000;
/** The lock of the one hidden tab that still listens. */
const NOTIFY_LOCK = "obey-notify";
const WAITS_MS = [0, 500, 1_000, 2_000, 4_000, 8_000, 15_000];

export class Live {
  private readonly options: Options;
  private stop: AbortController | null = null;
  private attempt = 0;
  private brokenSince: number | null = null;
  private lastByte = 0;
  /** When the attempt that has no answer yet began. */
  private askedAt: number | null = null;
  private waiting: StreamEvent[] = [];
  private scheduled = false;
  private timer: number | undefined;
  private hiddenTimer: number | undefined;
  private ended = false;
  /** Hidden, and the tab that listens for all hidden ones. */
  private isListening = false;
  private stopListening: (() => void) | null = null;
  /** The daemon does not show other machines to this page. */
  private isAlone = false;

  constructor(options: Options) {
    this.options = options;
    document.addEventListener("visibilitychange", () => this.visibility());
    for (const event of ["online", "pageshow", "focus"]) {
      window.addEventListener(event, () => {
        if (!document.hidden && performance.now() - this.lastByte > STALE_AFTER_MS) this.open();
      });
    }
    window.setInterval(() => this.check(), 1_000);
    this.open();
  }

  /** Opens the stream anew, because something else is to be followed or a key has come. */
  open(): void {
    window.clearTimeout(this.timer);
    this.stop?.abort();
    this.ended = false;
    this.lastByte = performance.now();
    this.askedAt = this.lastByte;
    if (this.brokenSince === null) this.options.state({ kind: "connecting" });
    const stop = new AbortController();
    this.stop = stop;
    void this.read(stop);
  }

  private async read(stop: AbortController): Promise<void> {
    try {
      const { sessions: all, overview, machines: elsewhere } = this.options.wanted();
      const sessions = this.isListening ? {} : all;
      const machines = elsewhere === null || this.isAlone ? null : this.isListening ? {} : elsewhere;
      const response = await fetch("/api/live", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers() },
        body: JSON.stringify({ sessions, ...(overview ? { overview: 0 } : {}), ...(machines === null ? {} : { machines }) }),
        signal: stop.signal,
        cache: "no-store",
      });
      if (response.status === 401 && key() !== null) return this.signedOut();
      // Reached through a relay, or of an older version: this machine alone is better than nothing.
      if ([400, 403].includes(response.status) && machines !== null) this.isAlone = true;
      if (!response.ok || response.body === null) throw new Error(`the daemon answered ${response.status}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (stop.signal.aborted) return;
        if (done) break;
        this.lastByte = performance.now();
        this.askedAt = null;
        this.arrived(parser.push(value));
      }
    } catch {
      if (stop.signal.aborted) return;
    }
    if (!this.ended) this.retry();
  }

  private arrived(events: StreamEvent[]): void {
    if (this.brokenSince !== null || this.attempt > 0) {
      this.brokenSince = null;
      this.attempt = 0;
    }
    this.options.state({ kind: "live" });
    for (const event of events) {
      if (event.event === "signed_out") return this.signedOut();
      this.waiting.push(event);
    }
    if (this.waiting.length === 0 || this.scheduled) return;
    this.scheduled = true;
    const hand = () => {
      this.scheduled = false;
      const taken = this.waiting;
      this.waiting = [];
      this.options.take(taken);
    };
    // A hidden tab has no frames.
    if (document.hidden) window.setTimeout(hand, 50);
    else requestAnimationFrame(hand);
  }

  private signedOut(): void {
    this.ended = true;
    this.stop?.abort();
    this.options.state({ kind: "signed_out" });
    onSignedOut();
  }

  private retry(): void {
    this.askedAt = null;
    const now = Date.now();
    this.brokenSince ??= now;
    const broken = this.brokenSince;
    this.options.state(now - broken > GONE_AFTER_MS ? { kind: "gone", since: broken } : { kind: "reconnecting", since: broken });
    const wait = WAITS_MS[Math.min(this.attempt, WAITS_MS.length - 1)] ?? 0;
    this.attempt += 1;
    this.timer = window.setTimeout(() => this.open(), wait * (0.75 + Math.random() / 2));
  }

  /** Gives a silent stream up, and keeps the words about a broken one true. */
  private check(): void {
    if (this.ended || (document.hidden && !this.isListening)) return;
    if (this.brokenSince !== null) {
      const kind = Date.now() - this.brokenSince > GONE_AFTER_MS ? "gone" : "reconnecting";
      this.options.state({ kind, since: this.brokenSince });
      if (this.askedAt !== null && performance.now() - this.askedAt > ANSWER_AFTER_MS) {
        this.stop?.abort();
        this.retry();
      }
    } else if (performance.now() - this.lastByte > DEAD_AFTER_MS) {
      this.stop?.abort();
      this.retry();
    }
  }

  /** Lets go of the stream while the tab is hidden: a browser has six connections for all tabs. */
  private visibility(): void {
    window.clearTimeout(this.hiddenTimer);
    if (document.hidden) {
      this.hiddenTimer = window.setTimeout(() => this.rest(), HIDDEN_AFTER_MS);
      return;
    }
    const wasListening = this.isListening;
    this.isListening = false;
    this.stopListening?.();
    this.stopListening = null;
    if (this.stop === null || wasListening || performance.now() - this.lastByte > STALE_AFTER_MS) {
      if (!this.ended) this.open();
    }
  }

  /** Stops reading, and waits to be the one hidden tab that reads the overview. */
  private rest(): void {
    this.stop?.abort();
    this.stop = null;
    window.clearTimeout(this.timer);
    this.options.state({ kind: "resting" });
    if (this.ended || !("locks" in navigator)) return;
    const waiting = new AbortController();
    const listening = new Promise<void>((resolve) => {
      this.stopListening = () => {
        waiting.abort();
        resolve();
      };
    });
    void navigator.locks
      .request(NOTIFY_LOCK, { signal: waiting.signal }, async () => {
        if (!document.hidden || this.ended) return;
        this.isListening = true;
        this.open();
        await listening;
      })
      // Given up because somebody looks at this tab again.
      .catch(() => {});
  }
}
