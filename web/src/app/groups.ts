// The groups of the list and their order, glyphs and words. The states are derived by the daemon.
import type { SessionOverview } from "../wire/types.ts";

export interface Group {
  state: string;
  title: string;
  word: string;
  glyph: string;
  tone: string;
}

export const GROUPS: Group[] = [
  { state: "SESSION_STATE_NEEDS_YOU", title: "Needs you", word: "needs you", glyph: "▲", tone: "needs" },
  { state: "SESSION_STATE_FAILED", title: "Failed", word: "failed", glyph: "✕", tone: "fail" },
  { state: "SESSION_STATE_WORKING", title: "Working", word: "working", glyph: "●", tone: "work" },
  { state: "SESSION_STATE_QUIET", title: "Quiet", word: "quiet", glyph: "◌", tone: "dim" },
  { state: "SESSION_STATE_DONE", title: "Done, not looked at", word: "done", glyph: "✓", tone: "work" },
  { state: "SESSION_STATE_IDLE", title: "Idle", word: "idle", glyph: "○", tone: "dim" },
  { state: "SESSION_STATE_ENDED", title: "Ended", word: "ended", glyph: "–", tone: "dim" },
];

export function groupOf(session: SessionOverview): Group {
  return GROUPS.find((group) => group.state === session.state) ?? GROUPS[5]!;
}

/** Returns the glyph of a session: a question has its own. */
export function glyphOf(session: SessionOverview): string {
  return session.state === "SESSION_STATE_NEEDS_YOU" && session.cause === "question" ? "?" : groupOf(session).glyph;
}

/** Sorts sessions as lists show them: by group, and within one the longest in it first. */
export function sorted(sessions: SessionOverview[]): SessionOverview[] {
  const rank = (one: SessionOverview) => GROUPS.findIndex((group) => group.state === one.state);
  const since = (one: SessionOverview) => (one.since === null ? 0 : Date.parse(one.since));
  return sessions.toSorted((one, other) => rank(one) - rank(other) || since(one) - since(other) || one.session_id.localeCompare(other.session_id));
}
