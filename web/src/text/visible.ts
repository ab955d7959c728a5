// Text of agents as people may trust it: characters that hide or reorder others are shown as marks.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Shows control and bidirectional characters as marks, such as ⟨U+202E⟩. Line breaks and tabs stay. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (letter) => `⟨U+${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** An input as people read it: the fields one below the other. */
export function pretty(input: unknown): string {
  if (input === null || input === undefined) return "";
  if (typeof input === "string") return visible(input);
  return visible(JSON.stringify(input, null, 2).replaceAll("\\n", "\n").replaceAll('\\"', '"'));
}
