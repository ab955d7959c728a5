//! Keeps single events small enough for every client: by default gRPC ends a stream at a message of 4 MiB,
//! and such a client would never get past it. Text is only divided; the output of a call is cut, with a note.

use serde_json::Value;

use crate::agent::AgentEvent;
use crate::any_report;
use crate::limits::EVENT_TEXT_MAX_BYTES;

/// Returns a report as events that fit, in order.
pub(super) fn fit(event: AgentEvent) -> Vec<AgentEvent> {
    match event {
        AgentEvent::Text { text, parent } if is_long(&text) => {
            divided(&text).map(|text| AgentEvent::Text { text, parent: parent.clone() }).collect()
        }
        AgentEvent::Thinking { text, parent } if is_long(&text) => {
            divided(&text).map(|text| AgentEvent::Thinking { text, parent: parent.clone() }).collect()
        }
        AgentEvent::ToolProgress { call, output } if is_long(&output) => {
            divided(&output).map(|output| AgentEvent::ToolProgress { call: call.clone(), output }).collect()
        }
        AgentEvent::ToolFinished { call, ok, output } if is_long(&output) => {
            vec![AgentEvent::ToolFinished { call, ok, output: cut(&output) }]
        }
        AgentEvent::TurnEnded { reason, text, error } if is_long(&text) => {
            vec![AgentEvent::TurnEnded { reason, text: cut(&text), error }]
        }
        AgentEvent::ToolStarted { call, tool, mut input, title, parent } => {
            cut_strings(&mut input);
            vec![AgentEvent::ToolStarted { call, tool, input, title, parent }]
        }
        short @ any_report!(
            life turn text ToolProgress ToolFinished request settings usage worker log
        ) => vec![short],
    }
}

/// Returns whether an event may have to be divided or cut; most are short.
pub(super) fn may_not_fit(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::Text { text, .. }
        | AgentEvent::Thinking { text, .. }
        | AgentEvent::TurnEnded { text, .. } => is_long(text),
        AgentEvent::ToolProgress { output, .. } | AgentEvent::ToolFinished { output, .. } => is_long(output),
        AgentEvent::ToolStarted { .. } => true,
        any_report!(life TurnStarted request settings usage worker log) => false,
    }
}

fn is_long(text: &str) -> bool {
    text.len() > EVENT_TEXT_MAX_BYTES
}

fn divided(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(EVENT_TEXT_MAX_BYTES));
        rest = tail;
        (!head.is_empty()).then(|| head.to_owned())
    })
}

fn cut(text: &str) -> String {
    let head = &text[..text.floor_char_boundary(EVENT_TEXT_MAX_BYTES)];
    format!("{head}\n[cut: {} of {} bytes]", head.len(), text.len())
}

fn cut_strings(value: &mut Value) {
    match value {
        Value::String(text) if is_long(text) => *text = cut(text),
        Value::Array(items) => items.iter_mut().for_each(cut_strings),
        Value::Object(fields) => fields.values_mut().for_each(cut_strings),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::EndReason;

    #[test]
    fn long_text_is_divided_between_letters_and_nothing_of_it_is_lost() {
        let text = "aé".repeat(EVENT_TEXT_MAX_BYTES);
        let said = fit(AgentEvent::Text { text: text.clone(), parent: None });
        let pieces: Vec<String> = said
            .into_iter()
            .map(|event| match event {
                AgentEvent::Text { text, .. } => text,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(pieces.len() >= 3);
        assert!(pieces.iter().all(|piece| piece.len() <= EVENT_TEXT_MAX_BYTES));
        assert_eq!(pieces.concat(), text);
    }

    #[test]
    fn long_output_is_cut_and_says_how_long_it_was() {
        let output = "x".repeat(EVENT_TEXT_MAX_BYTES + 5);
        let told = fit(AgentEvent::TurnEnded {
            reason: EndReason::Completed,
            text: output.clone(),
            error: String::new(),
        });
        let [AgentEvent::TurnEnded { text, .. }] = told.as_slice() else { panic!("{told:?}") };
        let note = format!("[cut: {EVENT_TEXT_MAX_BYTES} of {} bytes]", output.len());
        assert!(text.ends_with(&note), "{}", &text[EVENT_TEXT_MAX_BYTES..]);
    }

    #[test]
    fn short_events_stay_as_they_are() {
        let short = AgentEvent::Text { text: "hi".into(), parent: None };
        assert!(!may_not_fit(&short));
        assert_eq!(fit(short.clone()), [short]);
    }
}
