//! How many tokens a text costs a language model, estimated without its tables: texts fall into the pieces all current
//! tokenizers cut first (words with what stands before them, numbers, signs, breaks), and pieces have typical costs.
//! Within a fifth of a real tokenizer on code and prose; the tests compare.

/// What a character counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Break,
    Sign,
    /// Letters beyond ASCII of scripts with spaces between words.
    Letter,
    /// Characters that are words of their own, and pictures.
    Wide,
}

fn class(letter: char) -> Class {
    match letter {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        '\n' | '\r' => Class::Break,
        letter if letter.is_whitespace() => Class::Space,
        letter if letter.is_ascii() => Class::Sign,
        '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{1f000}'.. => {
            Class::Wide
        }
        letter if letter.is_alphabetic() => Class::Letter,
        _ => Class::Sign,
    }
}

/// Thousandths of a token.
const ONE: u64 = 1000;

/// Words of so many small letters; longer ones cost [`LONGER`] a letter on top. Measured on source and prose.
const WORD: [u64; 11] = [0, 1000, 1000, 1010, 1040, 1080, 1160, 1210, 1280, 1370, 1480];
const LONGER: u64 = 240;

/// Counts tokens of a text that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    thousandths: u64,
    run: Option<(Class, u64)>,
    /// Capitals right before the small letters of the same word.
    capitals: u64,
    /// The run before was signs, which take a line break with them.
    after_sign: bool,
}

impl Tokens {
    /// Adds a piece. Pieces may be cut anywhere between characters.
    pub fn push(&mut self, text: &str) {
        for letter in text.chars() {
            let class = class(letter);
            match &mut self.run {
                Some((running, len)) if *running == class => *len += 1,
                _ => {
                    self.end_run(Some(class));
                    self.run = Some((class, 1));
                }
            }
        }
    }

    /// Returns the estimate up to now.
    pub fn total(&self) -> u64 {
        let mut end = self.clone();
        end.end_run(None);
        end.thousandths.div_ceil(ONE)
    }

    fn end_run(&mut self, next: Option<Class>) {
        let Some((class, len)) = self.run.take() else { return };
        let starts_word = matches!(next, Some(Class::Lower | Class::Upper | Class::Letter));
        let after_sign = std::mem::replace(&mut self.after_sign, class == Class::Sign);
        let capitals = std::mem::take(&mut self.capitals);
        self.thousandths += match class {
            // "Word": the capital belongs to the small letters; "HTTPServer": all but the last do not.
            Class::Upper if next == Some(Class::Lower) => {
                self.capitals = 1;
                if len > 1 { capitals_cost(len - 1) } else { 0 }
            }
            Class::Upper => capitals_cost(len),
            Class::Lower => word_cost(len + capitals),
            Class::Letter => 900 + 300 * len,
            Class::Digit => len.div_ceil(3) * ONE,
            Class::Wide => len * 900,
            // One space goes with what follows; more are a token for all but that one.
            Class::Space => match (next, len) {
                (Some(Class::Break), _) => 0,
                (Some(Class::Digit | Class::Wide) | None, _) => ONE,
                (_, 1) => 0,
                _ => ONE,
            },
            Class::Break if after_sign => 0,
            Class::Break => ONE + (len / 16) * ONE,
            Class::Sign => sign_cost(len, starts_word),
        };
    }
}

fn word_cost(len: u64) -> u64 {
    match WORD.get(len as usize) {
        Some(cost) => *cost,
        None => WORD[WORD.len() - 1] + (len + 1 - WORD.len() as u64) * LONGER,
    }
}

fn capitals_cost(len: u64) -> u64 {
    match len {
        0 => 0,
        1..=2 => ONE,
        _ => ONE + (len - 2) * 230,
    }
}

/// Signs stand together; the last of several may go with the word behind it.
fn sign_cost(len: u64, starts_word: bool) -> u64 {
    match (len, starts_word) {
        (1, true) => 450,
        (1, false) => 950,
        (2, _) => 1050,
        (3..=4, _) => 1300,
        (len, _) => 1300 + (len - 4).min(60) * 60,
    }
}

/// Returns what a whole text costs: estimated, or counted where the program was built with `exact-tokens`.
pub fn estimate(text: &str) -> u64 {
    #[cfg(feature = "exact-tokens")]
    {
        tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
    }
    #[cfg(not(feature = "exact-tokens"))]
    {
        let mut tokens = Tokens::default();
        tokens.push(text);
        tokens.total()
    }
}

#[cfg(test)]
mod tests;
