//! A view of Rust source without comments and string literals, with lines and columns unchanged, so that
//! rules can search the code itself. Not a parser: it only knows where comments, strings and characters begin
//! and end.

/// Returns the source with comments and string contents blanked out.
pub fn code_only(source: &str) -> String {
    let mut view = View { rest: source, code: String::with_capacity(source.len()) };
    while !view.rest.is_empty() {
        view.step();
    }
    view.code
}

struct View<'a> {
    rest: &'a str,
    code: String,
}

impl View<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.blank(end);
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment(self.rest));
        } else if let Some(length) = raw_text(self.rest).filter(|_| !self.in_word()) {
            self.blank(length);
        } else if self.rest.starts_with('"') {
            self.blank(text(self.rest));
        } else if let Some(length) = character(self.rest) {
            self.blank(length);
        } else {
            let next = self.rest.chars().next().map_or(1, char::len_utf8);
            self.keep(next);
        }
    }

    /// Returns whether the code so far ends in a word, so that an `r` or `b` here belongs to it.
    fn in_word(&self) -> bool {
        self.code.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_')
    }

    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.code.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, length: usize) {
        let (blanked, rest) = self.rest.split_at(length);
        self.code.extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

fn block_comment(source: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    source.len()
}

/// Returns the length of a string literal that starts here.
fn text(source: &str) -> usize {
    let mut escaped = false;
    for (at, c) in source.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    source.len()
}

/// Returns the length of a raw string such as `r#"…"#` that starts here.
fn raw_text(source: &str) -> Option<usize> {
    let after = source.strip_prefix("br").or_else(|| source.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].strip_prefix('"')?;
    let start = source.len() - after.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(source[start..].find(&end).map_or(source.len(), |at| start + at + end.len()))
}

/// Returns the length of a character literal that starts here; a lifetime is not one.
fn character(source: &str) -> Option<usize> {
    let inside = source.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        return inside[1..].char_indices().skip(1).find(|(_, c)| *c == '\'').map(|(at, _)| at + 3);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 2)
}

/// Returns the lines that contain `word` as a whole word, counted from 0.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(move |(_, line)| has_word(line, word)).map(|(at, _)| at)
}

/// Returns whether a line contains `word` as a whole word.
pub fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !part_of_word(line[..at].chars().next_back()) && !part_of_word(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blanked() {
        let source = "let a = \"async\"; // async\nlet b = r#\"as\"ync\"#; /* async /* x */ async */ async";
        let code = code_only(source);
        assert_eq!(code.lines().count(), 2);
        assert_eq!(code.matches("async").count(), 1);
        assert_eq!(code.len(), source.len());
        assert!(code.ends_with("async"));
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        let code = code_only(
            "fn f<'a>(x: &'a str) { x.split('\"').any(|c| c == '\\'' || c == '\\u{1F600}'); async }",
        );
        assert!(code.contains("fn f<'a>(x: &'a str)"));
        assert!(code.contains("async"), "{code}");
        assert!(!code.contains("1F600"));
    }

    #[test]
    fn a_name_that_ends_in_r_is_no_raw_text() {
        assert!(code_only("let var\"x\"; await").contains("var"));
        assert!(!code_only("r\"await\"").contains("await"));
        assert!(!code_only("br##\"await\"# \"##").contains("await"));
    }

    #[test]
    fn words_stand_by_themselves() {
        assert!(has_word("pub async fn", "async"));
        assert!(!has_word("asynchronous", "async"));
        assert!(!has_word("my_async", "async"));
        assert_eq!(lines_with_word("a\nasync\nb async", "async").collect::<Vec<_>>(), [1, 2]);
    }
}
