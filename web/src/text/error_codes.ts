// Error codes in texts, and the addresses of the pages that the daemon has of them. Pure.

export interface CodedPart {
  text: string;
  /** "": a text without a page. */
  address: string;
}

/** Cuts a text at its error codes, such as OBEY-2031. */
export function codedParts(text: string): CodedPart[] {
  return text
    .split(/(\bOBEY-\d{4}\b)/)
    .map((part, at) => ({ text: part, address: at % 2 === 1 ? `/docs/errors/${part}` : "" }))
    .filter((part) => part.text !== "");
}
