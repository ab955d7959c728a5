//! Text of agents and files made harmless for a terminal: nothing of it moves the cursor, changes a colour, rings or
//! reorders. Every text that is not ours passes through here before it is drawn or put into a title.

/// Spaces that a tab stands for.
const TAB: &str = "    ";

/// Returns a text in which escape sequences are removed and other control characters are shown as marks. Line breaks stay.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str(TAB),
            // A carriage return before a line break belongs to it.
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            c if c.is_control() => out.push(mark(c)),
            c if is_reordering(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Like `clean`, in one line.
pub(crate) fn clean_line(text: &str) -> String {
    let text = clean(text);
    let mut words = text.split('\n').map(str::trim).filter(|line| !line.is_empty());
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut line, word| {
        line.push(' ');
        line.push_str(word);
        line
    })
}

/// Output of a program: a carriage return writes over its line, as in progress bars.
pub(crate) fn clean_output(text: &str) -> String {
    if !text.contains('\r') {
        return clean(text);
    }
    let line = |line: &str| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default().to_owned()
    };
    clean(&text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

/// What a person must see of a command before allowing it: escape sequences too are shown, as marks.
pub(crate) fn revealed(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => '\n',
        '\t' => ' ',
        c if c.is_control() => mark(c),
        c if is_reordering(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// The picture of a control character.
fn mark(c: char) -> char {
    match c as u32 {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

/// Characters that change the order or the visibility of others.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{061c}'
        | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_csi(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        Some(' '..='/') => {
            chars.next();
            chars.next_if(|c| ('0'..='~').contains(c));
        }
        Some('0'..='~') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_csi(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
    chars.next_if(|c| ('@'..='~').contains(c));
}

/// Skips to the end of a string sequence. One that does not end in its line is no sequence: the line is kept.
fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if(|c| *c == '\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_an_agents_text_is_interpreted() {
        let hostile = "a\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}b\u{1b}]52;c;eA==\u{1b}\\c\u{7}\u{8}\u{202e}d\u{9b}2Je\u{1b}Pq\u{1b}\\f\u{1b}";
        let text = clean(hostile);
        assert_eq!(text, "ared bc\u{2407}\u{2408}\u{fffd}def");
        assert!(text.chars().all(|c| !c.is_control()));
    }

    #[test]
    fn progress_bars_show_their_last_state() {
        assert_eq!(clean_output("10%\r50%\r100%\r\ndone"), "100%\ndone");
        assert_eq!(clean("a\r\nb\tc"), "a\nb    c");
    }

    #[test]
    fn a_command_shows_what_it_hides() {
        assert_eq!(revealed("ls\u{1b}[8m; rm\u{202e}"), "ls\u{241b}[8m; rm\u{fffd}");
        assert_eq!(clean_line(" a \n\n b "), "a b");
    }
}
