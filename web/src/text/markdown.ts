// Markdown as elements: only marked's lexer is used, and its tokens become nodes here. Raw HTML is shown as text, images are
// links, and links go to the web only. A text that grows is lexed again from its last open block on; blocks that are
// closed are never touched again.
import { Lexer, type Token, type Tokens } from "marked";

type Links = { [label: string]: { href: string; title: string | null } };

/** Colours a block of code, once it is closed. */
export type Highlighter = (code: HTMLElement, text: string, language: string) => void;

export class MarkdownView {
  readonly element: HTMLElement;
  private readonly highlight: Highlighter;
  private text = "";
  /** Up to here the text is in closed blocks. */
  private stable = 0;
  private open: Node[] = [];
  private links: Links = {};
  private hasDefinitions = false;

  constructor(highlight: Highlighter) {
    this.element = document.createElement("div");
    this.element.className = "markdown";
    this.highlight = highlight;
  }

  /** Shows a text. One that continues the last costs only its new part. */
  update(text: string, isClosed: boolean): void {
    const source = text.replace(/\r\n?/g, "\n");
    // A definition may come after its use, so a closed text with one is lexed as a whole.
    if (!source.startsWith(this.text) || (isClosed && this.hasDefinitions)) this.reset();
    this.text = source;
    const tokens = this.lex(source.slice(this.stable));
    for (const node of this.open) node.parentNode?.removeChild(node);
    this.open = [];
    let lastBlock = tokens.length - 1;
    while (lastBlock > 0 && tokens[lastBlock]?.type === "space") lastBlock -= 1;
    tokens.forEach((token, at) => {
      const node = this.block(token, isClosed || at < lastBlock);
      if (at < lastBlock || isClosed) this.stable += token.raw.length;
      else if (node) this.open.push(node);
      if (node) this.element.appendChild(node);
    });
  }

  /** Lexes a part of the text. Every definition is a token, also one that repeats another: the lengths of all tokens together
   * are that of the text. */
  private lex(source: string): Token[] {
    const lexer = new Lexer({ gfm: true });
    const found: Links = {};
    lexer.tokens.links = new Proxy(found, { get: () => undefined });
    const tokens = lexer.blockTokens(source, lexer.tokens);
    for (const [label, link] of Object.entries(found)) this.links[label] ??= link;
    this.hasDefinitions ||= Object.keys(found).length > 0;
    lexer.tokens.links = this.links;
    for (const { src, tokens: inside } of lexer.inlineQueue) lexer.inlineTokens(src, inside);
    return tokens;
  }

  private reset(): void {
    this.links = {};
    this.text = "";
    this.stable = 0;
    this.open = [];
    this.element.replaceChildren();
  }

  private block(token: Token, isClosed: boolean): Node | null {
    switch (token.type) {
      case "space":
      case "def":
        return null;
      case "heading":
        // One level for all: an agent's levels need not follow those of the page.
        return this.inline(element("h2", `depth-${(token as Tokens.Heading).depth}`), token.tokens ?? []);
      case "paragraph":
        return this.inline(element("p"), token.tokens ?? []);
      case "code":
        return this.code(token as Tokens.Code, isClosed);
      case "blockquote":
        return this.blocks(element("blockquote"), token.tokens ?? [], isClosed);
      case "hr":
        return element("hr");
      case "list":
        return this.list(token as Tokens.List, isClosed);
      case "table":
        return this.table(token as Tokens.Table);
      case "text":
        return this.inline(element("p"), token.tokens ?? [token]);
      default: {
        // HTML and what a later version of the lexer knows: as it was written.
        const shown = element("p");
        shown.textContent = token.raw;
        return shown;
      }
    }
  }

  private blocks(target: HTMLElement, tokens: Token[], isClosed: boolean): HTMLElement {
    for (const token of tokens) {
      const node = this.block(token, isClosed);
      if (node) target.appendChild(node);
    }
    return target;
  }

  private code(token: Tokens.Code, isClosed: boolean): HTMLElement {
    const box = element("div", "code");
    const pre = element("pre");
    pre.tabIndex = 0;
    const code = element("code");
    code.textContent = token.text;
    pre.appendChild(code);
    box.appendChild(pre);
    if (isClosed) {
      const language = (token.lang ?? "").split(/\s/)[0] ?? "";
      if (language !== "") this.highlight(code, token.text, language);
      const copy = element("button", "copy") as HTMLButtonElement;
      copy.type = "button";
      copy.textContent = "Copy";
      copy.addEventListener("click", () => void navigator.clipboard?.writeText(token.text));
      box.appendChild(copy);
    }
    return box;
  }

  private list(token: Tokens.List, isClosed: boolean): HTMLElement {
    const list = element(token.ordered ? "ol" : "ul");
    if (token.ordered && typeof token.start === "number" && token.start !== 1) (list as HTMLOListElement).start = token.start;
    for (const item of token.items) {
      const entry = element("li");
      if (item.task) {
        const box = element("input") as HTMLInputElement;
        box.type = "checkbox";
        box.checked = item.checked === true;
        box.disabled = true;
        box.setAttribute("aria-label", box.checked ? "done" : "not done");
        entry.appendChild(box);
        entry.className = "task";
      }
      for (const part of item.tokens) {
        if (part.type === "checkbox") continue;
        if (part.type === "text" && !item.loose) this.inline(entry, (part as Tokens.Text).tokens ?? [part]);
        else this.blocks(entry, [part], isClosed);
      }
      list.appendChild(entry);
    }
    return list;
  }

  private table(token: Tokens.Table): HTMLElement {
    const box = element("div", "table");
    box.tabIndex = 0;
    const table = element("table");
    const head = element("tr");
    for (const cell of token.header) head.appendChild(this.inline(element("th"), cell.tokens));
    const top = element("thead");
    top.appendChild(head);
    table.appendChild(top);
    const body = element("tbody");
    for (const row of token.rows) {
      const line = element("tr");
      for (const cell of row) line.appendChild(this.inline(element("td"), cell.tokens));
      body.appendChild(line);
    }
    table.appendChild(body);
    box.appendChild(table);
    return box;
  }

  private inline(target: HTMLElement, tokens: Token[]): HTMLElement {
    for (const token of tokens) {
      switch (token.type) {
        case "strong":
        case "em":
        case "del":
          target.appendChild(this.inline(element(token.type), token.tokens ?? []));
          break;
        case "codespan": {
          const code = element("code");
          code.textContent = (token as Tokens.Codespan).text;
          target.appendChild(code);
          break;
        }
        case "br":
          target.appendChild(element("br"));
          break;
        case "link":
        case "image":
          target.appendChild(this.link(token as Tokens.Link));
          break;
        case "text":
          if (token.tokens) this.inline(target, token.tokens);
          else target.appendChild(document.createTextNode((token as Tokens.Text).text));
          break;
        case "escape":
          target.appendChild(document.createTextNode((token as Tokens.Escape).text));
          break;
        case "checkbox":
          break;
        default:
          target.appendChild(document.createTextNode(token.raw));
      }
    }
    return target;
  }

  /** A link to the web, with its host shown where the text hides it; anything else is text. An image is never loaded. */
  private link(token: Tokens.Link | Tokens.Image): Node {
    const href = safeAddress(token.href);
    if (href === null) return document.createTextNode(token.raw);
    const anchor = element("a") as HTMLAnchorElement;
    anchor.href = href.href;
    anchor.rel = "noopener noreferrer";
    anchor.target = "_blank";
    if (token.type === "image") anchor.textContent = `[image: ${token.text}]`;
    else this.inline(anchor, (token as Tokens.Link).tokens);
    if (href.host !== "" && !anchor.textContent?.includes(href.host)) {
      const host = element("span", "host");
      host.textContent = ` (${href.host})`;
      anchor.appendChild(host);
    }
    return anchor;
  }
}

/** Returns an address that may be linked; nothing for scripts, data, files and relative ones. */
export function safeAddress(href: string): URL | null {
  try {
    const url = new URL(href);
    return ["https:", "http:", "mailto:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

function element(name: string, className = ""): HTMLElement {
  const made = document.createElement(name);
  if (className !== "") made.className = className;
  return made;
}
