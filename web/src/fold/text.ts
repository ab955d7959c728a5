// Cutting and joining text by characters (Unicode code points), the unit that Rust and TypeScript count alike.

/** Counts the characters of a text. */
export function chars(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // The second half of a pair belongs to the character before it.
    if (unit < 0xdc00 || unit > 0xdfff) count += 1;
  }
  return count;
}

/** Returns the first characters of a text, and an ellipsis if some are missing. */
export function head(text: string, max: number): string {
  if (text.length <= max) return text;
  const all = Array.from(text);
  return all.length <= max ? text : `${all.slice(0, max).join("")}…`;
}

/** Returns the last characters of a text, and how many were left out. */
export function tail(text: string, max: number): [string, number] {
  if (text.length <= max) return [text, 0];
  const all = Array.from(text);
  const omitted = Math.max(0, all.length - max);
  return omitted === 0 ? [text, 0] : [all.slice(omitted).join(""), omitted];
}

/** Replaces every line break, with the white space around it, by one space. */
export function oneLine(text: string): string {
  return text.split(/[\n\r]/).map(trim).filter((line) => line !== "").join(" ");
}

/** Removes spaces, tabs and line breaks at both ends. */
export function trim(text: string): string {
  let from = 0;
  let to = text.length;
  const isBlank = (at: number) => " \t\n\r".includes(text[at] ?? "x");
  while (from < to && isBlank(from)) from += 1;
  while (to > from && isBlank(to - 1)) to -= 1;
  return text.slice(from, to);
}

/** Returns the lines of a text; a line break at the end begins no line. */
export function lines(text: string): string[] {
  const whole = text.endsWith("\n") ? text.slice(0, -1) : text;
  return whole === "" ? [] : whole.split("\n");
}
