// The rows of a transcript as elements. Bodies that are folded are built when they are opened.
import { mount, unmount } from "svelte";
import type { CallRow, FileChange, Row, TodoRow } from "../fold/row.ts";
import Card from "../parts/Card.svelte";
import { showsThinking } from "../app/drafts.ts";
import { appendAnsi } from "../text/ansi.ts";
import { count, dollars, duration, moment, short } from "../text/format.ts";
import { MarkdownView, type Highlighter } from "../text/markdown.ts";
import { pretty, visible } from "../text/visible.ts";
import { codedParts } from "../text/error_codes.ts";
import { captionOf, isPicture, Pictures } from "./pictures.ts";
import type { RowView } from "./transcript_list.ts";

const OUTPUT_LINES = 20;

let colour: Promise<typeof import("../text/highlight.ts")> | null = null;
const highlight: Highlighter = (code, text, language) => {
  colour ??= import("../text/highlight.ts");
  void colour.then((chunk) => chunk.colour(code, text, language)).catch(() => {});
};

/** The rows of sub-agents: which ones begin a run of rows, what the agent said of it, and which ones somebody folded. */
export interface Nesting {
  isFirst(row: Row): boolean;
  title(parent: string): string;
  isFolded(parent: string): boolean;
  toggle(parent: string): void;
}

/** Makes the element of a row. `session` is whose requests are answered there. */
export function rowView(row: Row, session: string, nesting: Nesting): RowView {
  const element = document.createElement("article");
  element.className = `row row-${row.kind}`;
  element.title = moment(row.at);
  const { parent } = row;
  if (parent === null) {
    const part = bodyOf(row, session, element);
    part.show(row);
    return { element, update: part.show, ...(part.destroy ? { destroy: part.destroy } : {}) };
  }
  element.classList.add("nested");
  element.setAttribute("aria-label", "Sub-agent");
  const head = make("button", "link subagent") as HTMLButtonElement;
  head.type = "button";
  head.addEventListener("click", () => nesting.toggle(parent));
  const box = make("div");
  element.append(head, box);
  const part = bodyOf(row, session, box);
  const show = (now: Row) => {
    // A request that waits is never folded away.
    const isFolded = nesting.isFolded(parent) && !(now.kind === "request" && now.open);
    head.hidden = !nesting.isFirst(now);
    head.textContent = `${isFolded ? "▸" : "▾"} Sub-agent: ${visible(nesting.title(parent))}`;
    head.setAttribute("aria-expanded", String(!isFolded));
    box.hidden = isFolded;
    element.hidden = isFolded && head.hidden;
    part.show(now);
  };
  show(row);
  return { element, update: show, ...(part.destroy ? { destroy: part.destroy } : {}) };
}

interface Part {
  show(row: Row): void;
  destroy?(): void;
}

function bodyOf(first: Row, session: string, element: HTMLElement): Part {
  switch (first.kind) {
    case "text": {
      const view = new MarkdownView(highlight);
      element.append(view.element);
      return { show: (row) => row.kind === "text" && view.update(row.text, row.closed) };
    }
    case "thinking":
      return thinking(element);
    case "calls":
      return calls(element);
    case "edit":
      return edit(element);
    case "request":
      return request(element, session, first.request);
    case "plan":
      return plain(element, (row, box) => plan(row, box));
    case "turn_end":
      return plain(element, turnEnd);
    case "prompt":
      return prompt(element, session);
    default:
      return plain(element, notice);
  }
}

/** A row that is written anew whenever it changes; such rows are small. */
function plain(element: HTMLElement, write: (row: Row, box: HTMLElement) => void): Part {
  return {
    show: (row) => {
      element.replaceChildren();
      write(row, element);
    },
  };
}

/** A prompt, which never changes. */
function prompt(element: HTMLElement, session: string): Part {
  const pictures = new Pictures();
  const write = (row: Row) => {
    if (row.kind !== "prompt" || element.childElementCount > 0) return;
    const bubble = make("div", "bubble", row.text);
    element.append(bubble);
    row.attachments.forEach((file, at) => {
      bubble.append(isPicture(file) ? pictures.box(at, file) : make("span", "attachment", captionOf(file)));
    });
    if (row.attachments.some(isPicture)) void pictures.load(session, row.key);
    const words = [row.added ? "added to the turn" : "", row.origin === "agent" ? "begun by the agent" : "", row.by].filter(Boolean);
    if (words.length > 0) element.append(make("small", "dim", words.join(" · ")));
  };
  return { show: write, destroy: () => pictures.destroy() };
}

function thinking(element: HTMLElement): Part {
  const [details, summary, body] = folded();
  element.append(details);
  details.open = showsThinking();
  let text = "";
  details.addEventListener("toggle", () => (body.textContent = details.open ? text : ""));
  return {
    show: (row) => {
      if (row.kind !== "thinking") return;
      text = row.text;
      summary.textContent = `${row.closed ? "Thought" : "Thinking"} · ${count(text.length)} characters`;
      if (details.open) body.textContent = text;
    },
  };
}

function calls(element: HTMLElement): Part {
  const [details, summary, body] = folded();
  element.append(details);
  let shown: CallRow[] = [];
  const write = () => {
    body.replaceChildren();
    if (details.open) for (const call of shown) body.append(callBox(call));
  };
  details.addEventListener("toggle", write);
  return {
    show: (row) => {
      if (row.kind !== "calls") return;
      shown = row.calls;
      const failed = shown.filter((call) => call.state === "failed");
      const running = shown.filter((call) => call.state === "running").length;
      const took = shown.reduce((sum, call) => sum + (call.took_ms ?? 0), 0);
      const many = shown.length === 1 ? "1 call" : `${shown.length} calls`;
      summary.replaceChildren(make("span", "", `${many}: ${visible(row.summary)}`));
      let state = `${duration(took)} · ok`;
      if (shown.some((call) => call.state === "waiting")) state = STATES.waiting;
      else if (running > 0) state = STATES.running;
      else if (failed.length > 0) state = `${duration(took)} · ${failed.length} failed`;
      summary.append(make("span", failed.length > 0 ? "state fail" : "state dim", ` · ${state}`));
      for (const call of failed.slice(0, 3)) summary.append(make("span", "failed", `✕ ${visible(call.text)}`));
      write();
    },
  };
}

const STATES = { running: "running", waiting: "waiting for permission", ok: "ok", failed: "failed", unfinished: "not finished" };

function callBox(call: CallRow): HTMLElement {
  const box = make("div", "call");
  const words = [STATES[call.state], call.took_ms === null ? "" : duration(call.took_ms), call.permission].filter(Boolean);
  const head = make("div", "call-head");
  head.append(make("code", "", visible(call.text)), make("small", call.state === "failed" ? "fail" : "dim", words.join(" · ")));
  box.append(head);
  const [input, title, body] = folded();
  title.textContent = "Input";
  input.addEventListener("toggle", () => body.replaceChildren(pre(pretty(call.input))));
  box.append(input);
  if (call.output !== "") box.append(output(call));
  return box;
}

/** The last lines of an output; all that is kept on demand. */
function output(call: CallRow): HTMLElement {
  const box = make("div", "output");
  const lines = call.output.split("\n");
  const block = make("pre");
  block.tabIndex = 0;
  const cut = Math.max(0, lines.length - OUTPUT_LINES);
  appendAnsi(block, lines.slice(cut).join("\n"));
  if (cut > 0) {
    const more = make("button", "link", `Show ${count(cut)} earlier lines`) as HTMLButtonElement;
    more.type = "button";
    more.addEventListener("click", () => {
      block.replaceChildren();
      appendAnsi(block, call.output);
      more.remove();
    });
    box.append(more);
  }
  if (call.output_omitted > 0) box.append(make("small", "dim", `${count(call.output_omitted)} characters before this are in the journal only`));
  box.append(block);
  return box;
}

function edit(element: HTMLElement): Part {
  return plain(element, (row, box) => {
    if (row.kind !== "edit") return;
    for (const file of row.files) box.append(fileDiff(file));
    const words = [row.call.tool, STATES[row.call.state], row.call.permission].filter(Boolean).join(" · ");
    box.append(make("small", row.call.state === "failed" ? "fail" : "dim", words));
    if (row.call.state === "failed" && row.call.output !== "") box.append(output(row.call));
  });
}

/** The change of a file as lines. */
export function fileDiff(file: FileChange): HTMLElement {
  const box = make("div", "diff");
  const head = make("div", "diff-head");
  head.append(make("code", "", visible(file.path)), make("small", "dim", ` +${file.added} −${file.removed}`));
  const block = make("pre");
  block.tabIndex = 0;
  for (const line of file.lines) {
    const names = { "+": "add", "-": "del", "@": "hunk", " ": "" };
    block.append(make("span", names[line.mark], `${line.mark === "@" ? "" : line.mark}${line.text}\n`));
  }
  if (file.omitted > 0) block.append(make("span", "dim", `${count(file.omitted)} more lines`));
  box.append(head, block);
  return box;
}

function request(element: HTMLElement, session: string, id: string): Part {
  let card: Record<string, unknown> | null = null;
  const remove = () => {
    if (card) void unmount(card);
    card = null;
  };
  return {
    show: (row) => {
      if (row.kind !== "request") return;
      if (row.open && row.subject !== "client_tool") {
        if (!card) card = mount(Card, { target: element, props: { session, request: id, row } });
        return;
      }
      remove();
      element.replaceChildren(make("span", "glyph", row.subject === "question" ? "?" : "▲"));
      const what = row.subject === "client_tool" && row.open ? "a client runs" : row.outcome;
      const by = row.by === "" ? "" : ` by ${row.by}`;
      if (row.settled_at !== null) element.title = `${moment(row.at)}, settled ${moment(row.settled_at)}`;
      element.append(make("span", "", ` ${what}${by}: `), make("code", "", visible(row.text)));
      if (row.message !== "") element.append(make("small", "dim", ` ${row.message}`));
    },
    destroy: remove,
  };
}

function plan(row: Row, box: HTMLElement): void {
  if (row.kind !== "plan") return;
  const [details, summary, body] = folded();
  const current = row.todos.find((todo) => todo.status === "in_progress");
  summary.textContent = `To-dos ${row.done} of ${row.total}${current ? `: ${todoWords(current)}` : ""}`;
  for (const todo of row.todos) {
    const line = make("div", "", `${MARKS[todo.status]} ${todoWords(todo)}`);
    if (todo.priority !== null) line.append(make("span", "dim", ` · ${todo.priority} priority`));
    if (todo.description !== "") line.append(make("small", "todo-description dim", todo.description));
    body.append(line);
  }
  box.append(details);
}

/** What an entry of the to-do list says now: while the agent is at it, in the agent's own words for that. */
export function todoWords(todo: TodoRow): string {
  return todo.status === "in_progress" && todo.active_form !== "" ? todo.active_form : todo.text;
}

export const MARKS = { completed: "✓", in_progress: "●", pending: "○" };

const ENDS: { [reason: string]: string } = {
  completed: "Turn completed",
  cancelled: "Turn cancelled",
  failed: "Turn failed",
  refused: "The model refused",
  limit_reached: "Turn ended at a limit of the model",
  budget_exceeded: "Turn ended: the budget is used up",
  interrupted: "Turn interrupted",
};

function turnEnd(row: Row, box: HTMLElement): void {
  if (row.kind !== "turn_end") return;
  if (row.text !== "") {
    const view = new MarkdownView(highlight);
    view.update(row.text, true);
    box.append(view.element);
  }
  const words = [ENDS[row.reason] ?? row.reason];
  if (row.took_ms !== null) words.push(duration(row.took_ms));
  if (row.usage) words.push(`${short(row.usage.input_tokens + row.usage.output_tokens)} tokens`);
  if (row.usage && row.usage.cost_micro_usd > 0) words.push(dollars(row.usage.cost_micro_usd));
  box.append(make("div", row.reason === "completed" ? "rule" : "rule fail", words.join(" · ")));
  if (row.error !== "") box.append(coded("div", "fail", row.error));
}

function notice(row: Row, box: HTMLElement): void {
  switch (row.kind) {
    case "notice":
      box.append(coded("span", row.level === "info" ? "dim" : row.level === "error" ? "fail" : "warn", `${row.word}: ${row.code === "" ? "" : `${row.code} `}${visible(row.text)}`));
      break;
    case "compaction": {
      const tokens = row.tokens_before === null ? "" : ` from ${short(row.tokens_before)} to ${short(row.tokens_after ?? 0)} tokens`;
      box.append(make("div", "rule", `Conversation compacted${tokens}`));
      break;
    }
    case "worker":
      box.append(make("span", row.state === "failed" ? "fail" : "dim", `worker ${row.title || row.worker}: ${STATES[row.state]} ${row.summary}`));
      break;
    case "activity":
      box.append(make("span", "dim", `${row.agent_name} ${row.activity} ${row.tool} `), document.createTextNode(row.content));
      break;
    case "gap":
      box.append(make("div", "rule", `Events ${count(row.from)} to ${count(row.to)} are no longer kept`));
      break;
  }
}

function folded(): [HTMLDetailsElement, HTMLElement, HTMLElement] {
  const details = make("details") as HTMLDetailsElement;
  const summary = make("summary");
  const body = make("div", "folded");
  details.append(summary, body);
  return [details, summary, body];
}

function pre(text: string): HTMLElement {
  const block = make("pre", "", text);
  block.tabIndex = 0;
  return block;
}

/** A text whose error codes lead to their pages. */
function coded(name: string, className: string, text: string): HTMLElement {
  const made = make(name, className);
  for (const { text: part, address } of codedParts(text)) {
    if (address === "") {
      made.append(part);
      continue;
    }
    const link = make("a", "", part) as HTMLAnchorElement;
    link.href = address;
    link.target = "_blank";
    link.rel = "noopener";
    made.append(link);
  }
  return made;
}

function make(name: string, className = "", text = ""): HTMLElement {
  const made = document.createElement(name);
  if (className !== "") made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}
