// Which part of a line changed, where it stands in the place of another. Pure.

export interface Changed {
  from: number;
  to: number;
}

/** Share of the longer line that must have stayed: lines with less in common are other lines. */
const COMMON_MIN = 0.3;

const isWord = (letter: string | undefined) => letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);

/** Returns what lies between the common beginning and the common end, whole words; null: all of it or nothing. */
export function changedWords(left: string, right: string): { left: Changed; right: Changed } | null {
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start += 1;
  if (start === left.length && start === right.length) return null;
  while (start > 0 && isWord(left[start - 1]) && (isWord(left[start]) || isWord(right[start]))) start -= 1;
  let end = 0;
  while (end < shorter - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  while (end > 0 && isWord(left[left.length - end]) && (isWord(left[left.length - end - 1]) || isWord(right[right.length - end - 1]))) end -= 1;
  if ((left.slice(0, start).trim().length + end) < COMMON_MIN * Math.max(left.trim().length, right.trim().length)) return null;
  return { left: { from: start, to: left.length - end }, right: { from: start, to: right.length - end } };
}
