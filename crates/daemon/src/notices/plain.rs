//! Texts of notices are written by agents and models: what would change how they are shown is taken out, and markup is escaped
//! for who reads it. Pure.

use domain::notice::{Notice, NoticeChange};

/// Takes out of a notice's texts what would change how they are shown.
pub(super) fn without_tricks(change: NoticeChange) -> NoticeChange {
    let plain = |notice: Notice| Notice {
        name: shown(&notice.name),
        folder: shown(&notice.folder),
        text: shown(&notice.text),
        ..notice
    };
    match change {
        NoticeChange::Raise(notice) => NoticeChange::Raise(plain(notice)),
        NoticeChange::Withdraw(notice) => NoticeChange::Withdraw(plain(notice)),
    }
}

/// Returns a text without control characters and without those that reverse or hide others.
fn shown(text: &str) -> String {
    let letter = |letter: char| match letter {
        '\n' | '\t' => Some(' '),
        letter if letter.is_control() || is_hidden(letter) => None,
        letter => Some(letter),
    };
    text.chars().filter_map(letter).collect()
}

/// Directions of text, and characters without a width.
fn is_hidden(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Escapes markup: the freedesktop's notifications take a text for it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use domain::notice::NoticeKind;

    use super::*;

    #[test]
    fn what_agents_write_neither_reverses_nor_marks_up_a_notice() {
        let notice = Notice {
            id: "1".to_owned(),
            kind: NoticeKind::NeedsYou,
            session_id: "sess_1".to_owned(),
            name: "api\u{202e}x".to_owned(),
            folder: "/p".to_owned(),
            text: "run\n\u{1b}]0;x\u{7} \u{202e}fdp\u{2066}\u{200b} <a href=\"http://e\">ok & fine</a>"
                .to_owned(),
        };
        let NoticeChange::Raise(plain) = without_tricks(NoticeChange::Raise(notice)) else { panic!() };
        assert_eq!(plain.name, "apix");
        assert_eq!(plain.text, "run ]0;x fdp <a href=\"http://e\">ok & fine</a>");
        assert_eq!(escaped("<b>&</b>"), "&lt;b&gt;&amp;&lt;/b&gt;");
    }
}
