// What a person typed and did not send, by session and kept over reloads.

export function draft(session: string): string {
  try {
    return localStorage.getItem(`obey-draft-${session}`) ?? "";
  } catch {
    return "";
  }
}

export function setDraft(session: string, text: string): void {
  try {
    if (text === "") localStorage.removeItem(`obey-draft-${session}`);
    else localStorage.setItem(`obey-draft-${session}`, text);
  } catch {
    // A browser without storage keeps it while the page is open.
  }
}

/** What was chosen last for a new session. */
export function lastChoice(): Record<string, string> {
  try {
    return JSON.parse(localStorage.getItem("obey-new") ?? "{}") as Record<string, string>;
  } catch {
    return {};
  }
}

export function setLastChoice(choice: Record<string, string>): void {
  try {
    localStorage.setItem("obey-new", JSON.stringify(choice));
  } catch {
    // As above.
  }
}

/** A comment on a line of a review that was not sent yet. */
export interface LineComment {
  path: string;
  line: number;
  text: string;
  words: string;
}

export function comments(session: string): LineComment[] {
  try {
    return JSON.parse(localStorage.getItem(`obey-review-${session}`) ?? "[]") as LineComment[];
  } catch {
    return [];
  }
}

export function setComments(session: string, all: LineComment[]): void {
  try {
    if (all.length === 0) localStorage.removeItem(`obey-review-${session}`);
    else localStorage.setItem(`obey-review-${session}`, JSON.stringify(all));
  } catch {
    // As above.
  }
}

/** A file of a review as it was when somebody looked at it. */
export interface LookedAt {
  added: number;
  removed: number;
  status: string;
  /** Length of its change; 0: it was not opened. */
  length: number;
}

export function lookedAt(session: string): Record<string, LookedAt> {
  try {
    return JSON.parse(localStorage.getItem(`obey-looked-at-${session}`) ?? "{}") as Record<string, LookedAt>;
  } catch {
    return {};
  }
}

export function setLookedAt(session: string, all: Record<string, LookedAt>): void {
  try {
    if (Object.keys(all).length === 0) localStorage.removeItem(`obey-looked-at-${session}`);
    else localStorage.setItem(`obey-looked-at-${session}`, JSON.stringify(all));
  } catch {
    // As above.
  }
}

/** Whether what an agent thought is shown without opening it. */
export function showsThinking(): boolean {
  try {
    return localStorage.getItem("obey-thinking") === "open";
  } catch {
    return false;
  }
}

export function setShowsThinking(isOpen: boolean): void {
  try {
    localStorage.setItem("obey-thinking", isOpen ? "open" : "folded");
  } catch {
    // As above.
  }
}
