// Notices of the browser: somebody needs you, a session failed. One for each request; withdrawn when it is settled
// elsewhere; none for the session one is looking at.
import { go, router } from "./route.svelte.ts";
import { store } from "./store.svelte.ts";

const WANTED = "obey-notices";
const shown = new Map<string, Notification>();
let known: Set<string> | null = null;

export function wantsNotices(): boolean {
  try {
    return localStorage.getItem(WANTED) === "yes" && "Notification" in window && Notification.permission === "granted";
  } catch {
    return false;
  }
}

/** Asks the browser for the permission to notify, or stops notifying. Returns whether notices come from now on. */
export async function setNotices(wanted: boolean): Promise<boolean> {
  const granted = wanted && "Notification" in window && (await Notification.requestPermission()) === "granted";
  try {
    localStorage.setItem(WANTED, granted ? "yes" : "no");
  } catch {
    return false;
  }
  return granted;
}

/** Watches the overview. No command is in a notice: others may see the screen. */
export function watchNotices(): void {
  const open = new Map<string, { session: string; title: string }>();
  for (const one of Object.values(store.sessions)) {
    for (const request of one.requests) {
      open.set(`${one.session_id} ${request.request_id}`, { session: one.session_id, title: `${one.name} needs you: ${request.kind}` });
    }
    if (one.state === "SESSION_STATE_FAILED") open.set(`${one.session_id} failed`, { session: one.session_id, title: `${one.name} failed` });
  }
  for (const [tag, notice] of shown) {
    if (open.has(tag)) continue;
    notice.close();
    shown.delete(tag);
  }
  // What was there when the page was opened is on the screen, not in a notice.
  if (known !== null && wantsNotices()) {
    for (const [tag, { session, title }] of open) {
      const isInView = document.hasFocus() && router.current.session === session;
      if (known.has(tag) || isInView) continue;
      const notice = new Notification(title, { tag, icon: "/icon.svg" });
      notice.addEventListener("click", () => {
        window.focus();
        go(`/s/${session}`);
      });
      shown.set(tag, notice);
    }
  }
  if (store.hasOverview) known = new Set(open.keys());
}
