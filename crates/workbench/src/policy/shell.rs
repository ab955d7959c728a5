//! Parses shell texts as far as policies need it: their simple commands, the arguments, and the files they
//! are redirected into; also inside `$(…)`, `sh -c '…'`, `env`, `sudo` and the like. Expands nothing, so a
//! text that hides its meaning is not understood; the sandbox covers those.

/// A program with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) words: Vec<String>,
    pub(super) writes: Vec<String>,
}

/// A token of a shell text.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// A boundary between commands.
    Border,
    /// `>` and variants: the next word is a file.
    Into,
    /// `<` and variants.
    From,
}

/// Programs that run the command that follows them.
const WRAPPERS: &[&str] = &[
    "sudo", "doas", "env", "nohup", "nice", "time", "command", "exec", "builtin", "xargs", "timeout",
    "stdbuf", "setsid",
];

/// Programs that take a shell text.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash"];

/// Shell keywords that precede commands.
const KEYWORDS: &[&str] =
    &["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "(", ")", "fi", "done"];

/// Returns the simple commands of a shell text, including nested ones.
pub(super) fn simple_commands(text: &str, depth: usize) -> Vec<Simple> {
    let mut found = Vec::new();
    let mut inner = Vec::new();
    for simple in split(&tokens(text, &mut inner)) {
        unwrap(simple, depth, &mut found);
    }
    if depth > 0 {
        for text in inner {
            found.extend(simple_commands(&text, depth - 1));
        }
    }
    found
}

/// Groups tokens into simple commands with the files they write to.
fn split(tokens: &[Token]) -> Vec<Simple> {
    let mut all = Vec::new();
    let mut current = Simple::default();
    let mut target = None;
    for token in tokens.iter().chain([&Token::Border]) {
        match token {
            Token::Border => {
                let done = std::mem::take(&mut current);
                if !done.words.is_empty() || !done.writes.is_empty() {
                    all.push(done);
                }
                target = None;
            }
            Token::Into | Token::From => target = Some(token),
            Token::Word(word) => match target.take() {
                Some(Token::Into) => current.writes.push(word.clone()),
                Some(_) => current.words.push(word.clone()),
                None if current.words.is_empty() && KEYWORDS.contains(&word.as_str()) => {}
                None => current.words.push(word.clone()),
            },
        }
    }
    all
}

/// Adds a command, and the one it runs if it is a wrapper or a shell.
fn unwrap(simple: Simple, depth: usize, found: &mut Vec<Simple>) {
    let mut words: Vec<String> = simple.words.clone();
    while words.first().is_some_and(|word| is_assignment(word)) {
        words.remove(0);
    }
    let program =
        words.first().map(|word| word.rsplit('/').next().unwrap_or(word).to_owned()).unwrap_or_default();
    found.push(Simple { words: words.clone(), writes: simple.writes });
    if depth == 0 {
        return;
    }
    if WRAPPERS.contains(&program.as_str()) {
        let skip = |word: &&String| {
            word.starts_with('-')
                || is_assignment(word)
                || word.chars().all(|c| c.is_ascii_digit() || ".smh".contains(c))
        };
        let from = 1 + words.iter().skip(1).take_while(skip).count();
        if from < words.len() {
            unwrap(Simple { words: words.split_off(from), writes: Vec::new() }, depth - 1, found);
        }
    } else if program == "eval" {
        found.extend(simple_commands(&words[1..].join(" "), depth - 1));
    } else if SHELLS.contains(&program.as_str())
        && let Some(at) = words
            .iter()
            .position(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
        && let Some(text) = words.get(at + 1)
    {
        found.extend(simple_commands(text, depth - 1));
    }
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Splits a text into tokens; texts inside `$(…)` and backquotes are collected in `inner`.
fn tokens(text: &str, inner: &mut Vec<String>) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars().peekable();
    let end = |word: &mut Option<String>, tokens: &mut Vec<Token>| {
        if let Some(word) = word.take() {
            tokens.push(Token::Word(word));
        }
    };
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                let quoted: String = letters.by_ref().take_while(|letter| *letter != '\'').collect();
                word.get_or_insert_default().push_str(&quoted);
            }
            '"' => double_quoted(&mut letters, word.get_or_insert_default(), inner),
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(letter) => word.get_or_insert_default().push(letter),
            },
            '$' if letters.peek() == Some(&'(') => {
                letters.next();
                inner.push(parenthesised(&mut letters));
                word.get_or_insert_default();
            }
            '`' => {
                inner.push(letters.by_ref().take_while(|letter| *letter != '`').collect());
                word.get_or_insert_default();
            }
            '#' if word.is_none() => {
                letters.by_ref().take_while(|letter| *letter != '\n').for_each(drop);
                tokens.push(Token::Border);
            }
            '>' | '<' => {
                // The number of a descriptor is not a word.
                if word.as_ref().is_some_and(|word| word.chars().all(|letter| letter.is_ascii_digit())) {
                    word = None;
                }
                end(&mut word, &mut tokens);
                let mut duplicate = false;
                while let Some(next) = letters.next_if(|next| "><|&".contains(*next)) {
                    duplicate |= next == '&';
                }
                // `2>&1` names a descriptor, not a file.
                let number =
                    duplicate && letters.peek().is_some_and(|next| next.is_ascii_digit() || *next == '-');
                if number {
                    letters.next();
                } else {
                    tokens.push(if letter == '>' { Token::Into } else { Token::From });
                }
            }
            ';' | '|' | '&' | '\n' | '(' | ')' => {
                end(&mut word, &mut tokens);
                tokens.push(Token::Border);
            }
            letter if letter.is_whitespace() => end(&mut word, &mut tokens),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    end(&mut word, &mut tokens);
    tokens
}

/// Takes the text up to the next double quote.
fn double_quoted(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    word: &mut String,
    inner: &mut Vec<String>,
) {
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => word.extend(letters.next()),
            '$' if letters.peek() == Some(&'(') => {
                letters.next();
                inner.push(parenthesised(letters));
            }
            '`' => inner.push(letters.by_ref().take_while(|letter| *letter != '`').collect()),
            letter => word.push(letter),
        }
    }
}

/// Takes the text up to the closing parenthesis.
fn parenthesised(letters: &mut impl Iterator<Item = char>) -> String {
    let mut depth = 1;
    letters
        .take_while(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth > 0
        })
        .collect()
}
