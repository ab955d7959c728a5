// Numbers and times as people read them, in the browser's language and zone.

const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function count(value: number): string {
  return number.format(value);
}

/** A number of tokens in few letters, such as 124 k. */
export function short(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 999_500) return `${(value / 1_000).toFixed(value < 9_950 ? 1 : 0)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

export function dollars(microUsd: number): string {
  return `$${(microUsd / 1_000_000).toFixed(2)}`;
}

/** How long something took or ago it was, such as 41 s or 6 min. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 1) return ms < 0 || ms >= 1_000 ? "0 s" : `${Math.max(0, Math.round(ms))} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** How long ago something was. */
export function ago(at: number, now: number): string {
  return now - at < 1_000 ? "now" : duration(now - at);
}

export function moment(at: number): string {
  return exact.format(at);
}

/** A moment as a column of a table has it: without the day if that is today. */
export function brief(at: number, now: number): string {
  return new Date(at).toDateString() === new Date(now).toDateString() ? clock.format(at) : moment(at);
}
