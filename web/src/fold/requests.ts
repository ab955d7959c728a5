// The rows of requests, and the words of their ends.
import { callText } from "./call.ts";
import { fileChanges } from "./change.ts";
import { str } from "./notices.ts";
import type { JournalEvent, Json, QuestionRow, RequestBody } from "./row.ts";
import { oneLine } from "./text.ts";

const DECISIONS: { [name: string]: string } = {
  allow_once: "allowed once",
  allow_session: "allowed for the session",
  deny: "denied",
  deny_and_stop: "denied and stopped",
};

type Fields = { [key: string]: unknown };

/** Returns the row of a request that was opened. */
export function opened(event: JournalEvent): RequestBody {
  const input = (event["input"] ?? null) as Json;
  const tool = str(event, "tool");
  const advice = (event["advice"] ?? {}) as Fields;
  const row: RequestBody = {
    kind: "request",
    request: str(event, "request"),
    subject: "permission",
    call: typeof event["call"] === "string" ? event["call"] : null,
    tool: "",
    text: "",
    input: null,
    files: [],
    questions: [],
    proposals: list(event["proposals"]).map((one) => ({ id: str(one, "id"), text: str(one, "text") })),
    destructive: str(advice, "destructive"),
    not_covered: str(advice, "not_covered"),
    open: true,
    outcome: "",
    by: "",
    message: "",
    settled_at: null,
  };
  if (event["kind"] === "question") {
    row.subject = "question";
    row.questions = list(event["questions"]).map(questionRow);
    row.text = row.questions.map((question) => oneLine(question.text)).join(" / ");
    return row;
  }
  row.tool = tool;
  row.input = input;
  if (event["kind"] === "client_tool") {
    row.subject = "client_tool";
    row.text = callText(tool, input, "");
    return row;
  }
  row.text = callText(tool, input, str(event, "title"));
  row.files = fileChanges(tool, input);
  return row;
}

/** Returns the sub-agent's call that a request belongs to. */
export function parentOf(event: JournalEvent): string | null {
  return event["kind"] === "permission" && typeof event["parent"] === "string" ? event["parent"] : null;
}

/** Returns how a request ended, in words: the answers to questions, or the decision. */
export function outcomeText(event: JournalEvent): string {
  switch (event["outcome"]) {
    case "decided":
      return DECISIONS[str(event, "decision")] ?? str(event, "decision");
    case "answered": {
      const answers = (event["answers"] ?? {}) as { [id: string]: string };
      // In the order of the questions' ids, which are compared by their bytes.
      const all = Object.keys(answers).sort(byBytes).map((id) => answers[id] ?? "");
      return all.length === 0 ? "answered" : `answered: ${all.join(", ")}`;
    }
    case "tool_returned":
      return event["ok"] === true ? "returned" : "failed";
    default: {
      const reason = str(event, "reason");
      return reason === "" ? "withdrawn" : `withdrawn: ${reason}`;
    }
  }
}

/** Compares texts as UTF-8 does, which is the order of their code points. */
function byBytes(one: string, other: string): number {
  const [a, b] = [Array.from(one), Array.from(other)];
  for (let at = 0; at < Math.min(a.length, b.length); at += 1) {
    const difference = (a[at]?.codePointAt(0) ?? 0) - (b[at]?.codePointAt(0) ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Returns how a call was permitted, for the call's own row. */
export function permissionText(outcome: string, by: string): string {
  return by === "" ? outcome : `${outcome} by ${by}`;
}

/** Leaves out what identifies a connection: an editor's prompts are marked after `#`. */
export function person(by: string): string {
  return by.split("#")[0] ?? "";
}

function questionRow(question: Fields): QuestionRow {
  return {
    id: str(question, "id"),
    header: str(question, "header"),
    text: str(question, "text"),
    options: list(question["options"]).map((one) => ({ label: str(one, "label"), description: str(one, "description") })),
    multi_select: question["multi_select"] === true,
  };
}

export function list(value: unknown): Fields[] {
  return Array.isArray(value) ? (value as Fields[]) : [];
}
