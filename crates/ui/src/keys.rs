//! The keys: one table of actions with their names, words and default keys, for the help, the palette, the last line and
//! the keys file. A key means one thing where it is pressed; a keys file that says otherwise is refused.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a key is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyContext {
    /// Everywhere except while text is written.
    Everywhere,
    List,
    Transcript,
    Card,
    /// The message field.
    Message,
    /// The review of changes.
    Review,
}

impl KeyContext {
    fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::List => "sessions",
            Self::Transcript => "transcript",
            Self::Card => "request",
            Self::Message => "message",
            Self::Review => "review",
        }
    }

    /// Whether a key of one context can be pressed in the other.
    fn overlaps(self, other: Self) -> bool {
        self == other
            || (self == Self::Everywhere && other != Self::Message)
            || (other == Self::Everywhere && self != Self::Message)
    }
}

macro_rules! actions {
    ($($variant:ident $name:literal $context:ident $keys:literal $words:literal;)*) => {
        /// What a key does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Action { $($variant),* }

        /// Every action: its name, where it works, its keys, and what it does in words.
        const TABLE: &[(Action, &str, KeyContext, &str, &str)] =
            &[$((Action::$variant, $name, KeyContext::$context, $keys, $words)),*];
    };
}

actions! {
    MoveDown "move_down" Everywhere "j down" "move down";
    MoveUp "move_up" Everywhere "k up" "move up";
    PageDown "page_down" Everywhere "pagedown space" "a page down";
    PageUp "page_up" Everywhere "pageup b" "a page up";
    Top "top" Everywhere "g home" "to the beginning";
    End "end" Everywhere "G end" "to the end, and follow";
    Open "open" Everywhere "enter" "open, or fold";
    Back "back" Everywhere "esc" "one back";
    NextPane "next_pane" Everywhere "tab" "the other pane";
    PaneSessions "pane_sessions" Everywhere "1" "to the sessions";
    PaneTranscript "pane_transcript" Everywhere "2" "to the transcript";
    NextRequest "next_request" Everywhere "}" "next request of any session";
    PreviousRequest "previous_request" Everywhere "{" "previous request of any session";
    Write "write" Everywhere "i" "write a message";
    CancelTurn "cancel_turn" Everywhere "." "cancel the turn";
    StopSession "stop_session" Everywhere "S" "stop the session";
    RestartSession "restart_session" Everywhere "R" "restart the session";
    ChangeMode "change_mode" Everywhere "m" "change the mode";
    NewSession "new_session" Everywhere "N" "new session";
    Review "review" Everywhere "d" "review changes";
    Search "search" Everywhere "/" "search all sessions";
    Usage "usage" Everywhere "u" "usage and budgets";
    Queue "queue" Everywhere "Q" "prompts that wait";
    Plans "plans" Everywhere "P" "plans of the session";
    Rename "rename" Everywhere "r" "rename the session";
    Budget "budget" Everywhere "$" "budget of the session";
    Merge "merge" Everywhere "M" "merge the session's tree";
    Fork "fork" Everywhere "F" "fork the session";
    Archive "archive" Everywhere "A" "archive the session";
    Remove "remove" Everywhere "X" "remove an ended session";
    OpenFolder "open_folder" Everywhere "o" "open the session's folder in $EDITOR";
    Shell "shell" Everywhere "!" "a shell in the session's folder";
    Palette "palette" Everywhere ": ctrl+k" "all actions";
    Help "help" Everywhere "? f1" "keys";
    Leave "leave" Everywhere "q" "leave; agents go on";
    ShowEnded "show_ended" List "e" "show or hide ended and archived sessions";
    Filter "filter" List "f" "filter the sessions";
    Find "find" Transcript "f" "find in the transcript";
    NextMatch "next_match" Transcript "n" "next match";
    PreviousMatch "previous_match" Transcript "N p" "previous match";
    NextPrompt "next_prompt" Transcript "]" "next prompt";
    PreviousPrompt "previous_prompt" Transcript "[" "previous prompt";
    FoldAll "fold_all" Transcript "z" "fold or open all";
    Copy "copy" Transcript "c" "copy the row";
    Allow "allow" Card "y" "allow once";
    AllowSession "allow_session" Card "a" "allow for the session";
    Deny "deny" Card "n" "deny, with words";
    DenyAndStop "deny_and_stop" Card "s" "deny and stop, with words";
    EditInput "edit_input" Card "E" "edit the input";
    ShowInput "show_input" Card "? o" "show the whole input";
    Send "send" Message "enter" "send";
    Newline "newline" Message "alt+enter ctrl+j shift+enter" "new line";
    AddToTurn "add_to_turn" Message "ctrl+t ctrl+enter" "add to the running turn";
    Editor "editor" Message "ctrl+g" "write in $EDITOR";
    Attach "attach" Message "ctrl+o" "attach a file";
    NextFile "next_file" Review "]" "next file";
    PreviousFile "previous_file" Review "[" "previous file";
    Comment "comment" Review "c" "comment on the line";
    SendComments "send_comments" Review "s" "send the comments";
}

impl Action {
    /// Returns every action.
    pub(crate) fn all() -> impl Iterator<Item = Action> {
        TABLE.iter().map(|row| row.0)
    }

    /// Whether it only moves what is seen.
    pub(crate) fn is_movement(self) -> bool {
        matches!(
            self,
            Action::MoveDown
                | Action::MoveUp
                | Action::PageDown
                | Action::PageUp
                | Action::Top
                | Action::End
                | Action::Open
                | Action::Back
                | Action::NextPane
                | Action::PaneSessions
                | Action::PaneTranscript
        )
    }

    fn row(self) -> &'static (Action, &'static str, KeyContext, &'static str, &'static str) {
        let found = TABLE.iter().find(|row| row.0 == self);
        // The table has every action: both come from one list.
        found.unwrap_or(&TABLE[0])
    }

    /// Returns the name in the keys file.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns where it works.
    pub(crate) fn context(self) -> KeyContext {
        self.row().2
    }

    /// Returns what it does.
    pub(crate) fn words(self) -> &'static str {
        self.row().4
    }
}

/// One key with its modifiers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Key {
    /// Returns the key of an event. Shift is part of a character, and terminals differ in whether they report it.
    pub(crate) fn of(event: &KeyEvent) -> Self {
        let mut modifiers =
            event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        if matches!(event.code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        Self { code: event.code, modifiers }
    }

    #[cfg(test)]
    pub(crate) fn code(self) -> KeyCode {
        self.code
    }

    #[cfg(test)]
    pub(crate) fn modifiers(self) -> KeyModifiers {
        self.modifiers
    }

    /// Parses a key such as `j`, `ctrl+k` or `pageup`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut modifiers = KeyModifiers::NONE;
        let mut rest = text;
        while let Some((modifier, key)) = rest.split_once('+').filter(|(_, key)| !key.is_empty()) {
            modifiers |= match modifier {
                "ctrl" => KeyModifiers::CONTROL,
                "alt" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return Err(format!("`{text}` is not a key: `{modifier}` is not ctrl, alt or shift")),
            };
            rest = key;
        }
        let named = NAMED.iter().find(|(name, _)| *name == rest).map(|(_, code)| *code);
        let mut letters = rest.chars();
        let code = match (named, letters.next(), letters.next()) {
            (Some(code), ..) => code,
            (None, Some(letter), None) => KeyCode::Char(letter),
            _ => {
                let function = rest.strip_prefix('f').and_then(|number| number.parse::<u8>().ok());
                let function = function.filter(|number| (1..=12).contains(number)).map(KeyCode::F);
                function.ok_or_else(|| {
                    format!(
                        "`{text}` is not a key: use a letter, or enter, esc, tab, space, up, pageup, f1, …"
                    )
                })?
            }
        };
        Ok(Self { code, modifiers })
    }
}

const NAMED: [(&str, KeyCode); 14] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "ctrl+"), (KeyModifiers::ALT, "alt+"), (KeyModifiers::SHIFT, "shift+")]
        {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(letter)) => write!(f, "{letter}"),
            (None, KeyCode::F(number)) => write!(f, "f{number}"),
            (None, other) => write!(f, "{other}"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which key does what.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable {
    keys: Vec<(Key, Action)>,
}

impl Default for KeyTable {
    fn default() -> Self {
        // The table of this file is tested to have no conflict.
        Self::from_text("").unwrap_or(Self { keys: Vec::new() })
    }
}

impl KeyTable {
    /// Reads a keys file: lines `action = key key`, `#` begins a comment. What it does not name keeps its keys.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let mut changed: Vec<(Action, Vec<Key>)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = at + 1;
            let Some((name, keys)) = line.split_once('=') else {
                return Err(format!("line {number}: expected `action = key key`"));
            };
            let name = name.trim();
            let action = Action::all().find(|action| action.name() == name).ok_or_else(|| {
                format!("line {number}: there is no action `{name}`; `obey ui --keys` lists them")
            })?;
            let keys = keys.split_whitespace().map(Key::parse).collect::<Result<Vec<Key>, String>>();
            changed.push((action, keys.map_err(|why| format!("line {number}: {why}"))?));
        }
        let mut keys = Vec::new();
        for (action, _, _, defaults, _) in TABLE {
            match changed.iter().rev().find(|(changed, _)| changed == action) {
                Some((_, own)) => keys.extend(own.iter().map(|key| (*key, *action))),
                None => {
                    for key in defaults.split_whitespace() {
                        keys.push((Key::parse(key)?, *action));
                    }
                }
            }
        }
        let table = Self { keys };
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<(), String> {
        for (at, (key, action)) in self.keys.iter().enumerate() {
            let clash = self.keys[..at].iter().find(|(other_key, other)| {
                other_key == key
                    && other != action
                    && other.context().overlaps(action.context())
                    && !shadows(*other, *action)
            });
            if let Some((_, other)) = clash {
                return Err(format!(
                    "the key `{key}` would mean both {} and {}",
                    other.name(),
                    action.name()
                ));
            }
        }
        Ok(())
    }

    /// Returns what a key does in a context.
    pub(crate) fn action(&self, context: KeyContext, event: &KeyEvent) -> Option<Action> {
        let key = Key::of(event);
        let of = |wanted: KeyContext| {
            let found = self.keys.iter().find(|(own, action)| *own == key && action.context() == wanted);
            found.map(|(_, action)| *action)
        };
        of(context).or_else(|| if context == KeyContext::Message { None } else { of(KeyContext::Everywhere) })
    }

    /// Returns the keys of an action, for the help.
    pub(crate) fn keys_of(&self, action: Action) -> String {
        let keys = self.keys.iter().filter(|(_, own)| *own == action).map(|(key, _)| key.to_string());
        keys.collect::<Vec<_>>().join(" ")
    }

    /// Returns the first key of an action, for the last line.
    pub(crate) fn key_of(&self, action: Action) -> Option<String> {
        self.keys.iter().find(|(_, own)| *own == action).map(|(key, _)| key.to_string())
    }

    /// Prints the table as a keys file.
    pub(crate) fn print(&self) -> String {
        let mut text = String::from("# action = keys                         where: what it does\n");
        for action in Action::all() {
            let line = format!("{} = {}", action.name(), self.keys_of(action));
            text.push_str(&format!("{line:<39} # {}: {}\n", action.context().name(), action.words()));
        }
        text
    }
}

/// Whether an action may have the key of a general one: where it works, it is meant.
fn shadows(general: Action, special: Action) -> bool {
    general.context() == KeyContext::Everywhere
        && (special.context() == KeyContext::Review
            || matches!(special, Action::ShowInput | Action::PreviousMatch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(text: &str) -> KeyEvent {
        let key = Key::parse(text).unwrap();
        KeyEvent::new(key.code, key.modifiers)
    }

    #[test]
    fn every_action_has_a_key_and_no_key_means_two_things() {
        let table = KeyTable::from_text("").unwrap();
        for action in Action::all() {
            assert!(table.key_of(action).is_some(), "{}", action.name());
        }
    }

    #[test]
    fn a_keys_file_changes_keys_and_is_printed_as_one() {
        let table = KeyTable::from_text("# mine\nallow = Y\nnewline = ctrl+n\n").unwrap();
        assert_eq!(table.action(KeyContext::Card, &pressed("Y")), Some(Action::Allow));
        assert_eq!(table.action(KeyContext::Card, &pressed("y")), None);
        assert_eq!(table.action(KeyContext::Message, &pressed("ctrl+n")), Some(Action::Newline));
        let printed: String =
            table.print().lines().map(|line| line.split(" # ").next().unwrap().to_owned() + "\n").collect();
        let again = KeyTable::from_text(&printed).unwrap();
        assert_eq!(again.keys_of(Action::Allow), "Y");
    }

    #[test]
    fn a_key_that_would_mean_two_things_is_refused_with_both_names() {
        let why = KeyTable::from_text("allow = n").unwrap_err();
        assert!(why.contains("`n`") && why.contains("allow") && why.contains("deny"), "{why}");
        let why = KeyTable::from_text("\nfly = n").unwrap_err();
        assert!(why.contains("line 2") && why.contains("fly"), "{why}");
        assert!(KeyTable::from_text("allow = hyper+x").unwrap_err().contains("hyper"));
        assert!(KeyTable::from_text("allow = xyz").unwrap_err().contains("xyz"));
    }

    #[test]
    fn letters_answer_only_a_card() {
        let table = KeyTable::default();
        for (key, action) in [("y", Action::Allow), ("n", Action::Deny), ("s", Action::DenyAndStop)] {
            assert_eq!(table.action(KeyContext::Card, &pressed(key)), Some(action));
            assert_eq!(table.action(KeyContext::Message, &pressed(key)), None);
            assert_ne!(table.action(KeyContext::List, &pressed(key)), Some(action));
        }
    }
}
