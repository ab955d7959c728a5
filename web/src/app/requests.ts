// A request as the daemon lists it, as the row that its card shows.
import { callText } from "../fold/call.ts";
import { fileChanges } from "../fold/change.ts";
import type { Json, RequestBody, Row } from "../fold/row.ts";
import type { Request } from "../wire/types.ts";

export function askedAt(one: Request): number {
  return one.asked_at === null ? 0 : Date.parse(one.asked_at);
}

export function requestRow(one: Request): Row & RequestBody {
  const isQuestion = one.kind === "REQUEST_KIND_QUESTION";
  let input: Json = null;
  try {
    input = one.input_json === "" ? null : (JSON.parse(one.input_json) as Json);
  } catch {
    input = one.input_json;
  }
  return {
    key: 0, last: 0, at: askedAt(one), parent: null, kind: "request", request: one.id,
    subject: isQuestion ? "question" : "permission", call: null, tool: one.tool_name,
    text: callText(one.tool_name, input, one.title), input, files: isQuestion ? [] : fileChanges(one.tool_name, input),
    questions: one.questions, proposals: one.proposals,
    destructive: one.destructive, not_covered: one.not_covered, open: true, outcome: "", by: "", message: "", settled_at: null,
  };
}
