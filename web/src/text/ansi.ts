// Colours of a terminal's output as elements; every other escape sequence is left out.

const SEQUENCE = /\u001b(?:\[([0-9;:?]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** Appends a text with its colours to an element. */
export function appendAnsi(target: Node, text: string): void {
  let classes: string[] = [];
  let from = 0;
  const add = (part: string) => {
    const clean = part.replace(/\r(?!\n)[^\n]*$/gm, (tail) => tail.slice(1)).replaceAll("\r", "");
    if (clean === "") return;
    if (classes.length === 0) {
      target.appendChild(document.createTextNode(clean));
      return;
    }
    const span = document.createElement("span");
    span.className = classes.join(" ");
    span.textContent = clean;
    target.appendChild(span);
  };
  for (const found of text.matchAll(SEQUENCE)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[2] === "m") classes = styled(classes, found[1] ?? "");
  }
  add(text.slice(from));
}

function styled(classes: string[], codes: string): string[] {
  let next = classes;
  for (const code of codes === "" ? [0] : codes.split(";").map(Number)) {
    if (code === 0) next = [];
    else if (code === 1) next = [...next, "ansi-bold"];
    else if (code === 39) next = next.filter((name) => !name.startsWith("ansi-c"));
    else if (code >= 30 && code <= 37) next = [...next.filter((name) => !name.startsWith("ansi-c")), `ansi-c${code - 30}`];
    else if (code >= 90 && code <= 97) next = [...next.filter((name) => !name.startsWith("ansi-c")), `ansi-c${code - 90}`];
    // Colours by number would need styles of their own.
    else if (code === 38 || code === 48) return next;
  }
  return next;
}
