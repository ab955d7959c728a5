// How the page is connected, in words.
import type { LiveState } from "../wire/live.ts";
import { duration } from "../text/format.ts";

export function connectionWords(live: LiveState, now: number): string {
  switch (live.kind) {
    case "live":
      return "live";
    case "connecting":
      return "connecting";
    case "resting":
      return "paused while hidden";
    case "signed_out":
      return "signed out";
    case "reconnecting":
      return `reconnecting, ${duration(now - live.since)}`;
    default:
      return `daemon not reachable, ${duration(now - live.since)}`;
  }
}
