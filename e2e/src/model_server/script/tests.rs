//! What the script language must do for every test that is written in it.

use super::*;

fn prompt(text: &str) -> Entry {
    Entry::Prompt(text.to_owned())
}

fn text_of(choice: &Choice) -> String {
    match &choice.reply {
        Ok(reply) => reply
            .blocks
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } => text.clone(),
                other => format!("{other:?}"),
            })
            .collect(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn assistant_messages_since_the_prompt_select_the_step() {
    let p = prompt(r#"fix it SCRIPT: [{"text":"a"}, [{"text":"b"},{"text":"c"}]]"#);
    let first = choose(std::slice::from_ref(&p));
    assert_eq!((first.key.as_str(), first.step, text_of(&first).as_str()), ("fix it", 0, "a"));
    let second = choose(&[p.clone(), Entry::Assistant]);
    assert_eq!((second.step, text_of(&second).as_str()), (1, "bc"));
    let past = choose(&[p, Entry::Assistant, Entry::Assistant]);
    assert_eq!(text_of(&past), "(script finished)");
}

#[test]
fn a_later_prompt_without_script_is_echoed() {
    let older = prompt(r#"SCRIPT: [{"text":"a"}]"#);
    let choice = choose(&[older, Entry::Assistant, prompt(" hello ")]);
    assert_eq!((choice.key.as_str(), text_of(&choice).as_str()), ("hello", "You said: hello"));
}

#[test]
fn the_last_of_joined_scripts_wins_and_nested_markers_do_not_count() {
    let text = r#"one SCRIPT: [{"text":"a"}]
two SCRIPT: [{"tool":"Agent","input":{"prompt":"SCRIPT: [{\"text\":\"inner\"}]"}}] thanks"#;
    let choice = choose(&[prompt(text)]);
    assert_eq!(choice.key, "two");
    let Ok(Reply { blocks, .. }) = choice.reply else { panic!("{choice:?}") };
    assert!(matches!(&blocks[..], [Block::Tool { name, .. }] if name == "Agent"), "{blocks:?}");
}

#[test]
fn modifiers_stand_alone_or_beside_a_block() {
    let text = r#"SCRIPT: [[{"text":"a","stop_reason":"max_tokens"},{"usage":{"input_tokens":7}}]]"#;
    let Ok(reply) = choose(&[prompt(text)]).reply else { panic!("unread") };
    assert_eq!(reply.stop_reason.as_deref(), Some("max_tokens"));
    assert_eq!(reply.usage.and_then(|usage| usage.input_tokens), Some(7));
    assert_eq!(reply.blocks.len(), 1);
}

#[test]
fn mistakes_in_a_script_are_said() {
    for (script, hint) in [
        (r#"{"text":"a"}"#, "not a JSON list"),
        ("", "nothing follows"),
        (r#"[{"txt":"a"}]"#, "no known kind"),
        (r#"[{"text":"a","tool":"b"}]"#, "more than one kind"),
        (r#"[{"text":5}]"#, "must be a text"),
        (r#"[{"usage":{"inputs":5}}]"#, "usage"),
    ] {
        let said = text_of(&choose(&[prompt(&format!("SCRIPT: {script}"))]));
        assert!(said.contains(hint), "{script} → {said}");
    }
}

#[test]
fn cutting_loses_no_byte_and_splits_no_character() {
    for text in ["", "a", "hello, world", "žluťoučký kůň 🐎🐎🐎", "🐎"] {
        for chunks in 1..12 {
            let parts = cut(text, chunks);
            assert_eq!(parts.concat(), text);
            assert!(parts.len() <= chunks, "{text:?} in {chunks}: {parts:?}");
            assert!(parts.iter().all(|part| !part.is_empty()));
        }
    }
    assert_eq!(cut("abcdefgh", 4), ["ab", "cd", "ef", "gh"]);
}
