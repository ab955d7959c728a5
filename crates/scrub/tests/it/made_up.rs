//! Fills `{class:length}` in the corpus with made-up characters, the same ones in every run.

/// A small generator of numbers that look random.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: &str) -> Self {
        Self(
            seed.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            }),
        )
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";

fn alphabet(class: &str) -> String {
    match class {
        "a" => format!("{LOWER}{UPPER}"),
        "l" => LOWER.into(),
        "an" => format!("{LOWER}{UPPER}{DIGITS}"),
        "ln" => format!("{LOWER}{DIGITS}"),
        "UN" => format!("{UPPER}{DIGITS}"),
        "d" => DIGITS.into(),
        "hex" => format!("{DIGITS}abcdef"),
        "HEX" => format!("{DIGITS}ABCDEF"),
        "b32" => format!("{UPPER}234567"),
        "b32l" => format!("{LOWER}234567"),
        "b58" => "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".into(),
        "b64" => format!("{LOWER}{UPPER}{DIGITS}+/"),
        "b64n" => format!("{LOWER}{UPPER}{DIGITS}"),
        "url" => format!("{LOWER}{UPPER}{DIGITS}_-"),
        "dj" => format!("{LOWER}{DIGITS}{UPPER}!@#%^*-_=+"),
        other => panic!("no class {other:?}"),
    }
}

/// Fills one place: characters of a class, beginning and ending with a letter or digit where it has any, and with one
/// of each kind, as random values of these lengths have in practice.
fn fill(class: &str, len: usize, dice: &mut Dice) -> String {
    let alphabet: Vec<char> = alphabet(class).chars().collect();
    let plain: Vec<char> = alphabet.iter().copied().filter(char::is_ascii_alphanumeric).collect();
    let digits: Vec<char> = alphabet.iter().copied().filter(char::is_ascii_digit).collect();
    let mut text: Vec<char> = (0..len)
        .map(|at| {
            if at == 0 || at + 1 == len {
                plain[dice.below(plain.len())]
            } else {
                alphabet[dice.below(alphabet.len())]
            }
        })
        .collect();
    if len > 3 && !digits.is_empty() {
        text[len / 2] = digits[dice.below(digits.len())];
    }
    text.into_iter().collect()
}

/// Fills a template.
pub(crate) fn expand(template: &str, dice: &mut Dice) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let close = rest.find('}').filter(|&close| is_place(&rest[1..close]));
        match close {
            Some(close) => {
                match rest[1..close].split_once(':') {
                    Some((class, len)) => out.push_str(&fill(class, len.parse().unwrap(), dice)),
                    None => out.push_str(&uuid(dice)),
                }
                rest = &rest[close + 1..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_place(inside: &str) -> bool {
    inside == "uuid"
        || inside.split_once(':').is_some_and(|(class, len)| {
            !class.is_empty() && class.chars().all(char::is_alphanumeric) && len.parse::<usize>().is_ok()
        })
}

fn uuid(dice: &mut Dice) -> String {
    let hex = fill("hex", 32, dice);
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

/// A text with its secrets marked: the plain text, and the secrets in it.
pub(crate) struct Marked {
    pub(crate) text: String,
    pub(crate) secrets: Vec<String>,
}

/// Takes the marks « and » out.
pub(crate) fn marked(text: &str) -> Marked {
    let mut secrets = Vec::new();
    let mut plain = String::new();
    for (index, part) in text.split('«').enumerate() {
        if index == 0 {
            plain.push_str(part);
            continue;
        }
        let (secret, after) = part.split_once('»').unwrap_or_else(|| panic!("no » in {text:?}"));
        secrets.push(secret.to_owned());
        plain.push_str(secret);
        plain.push_str(after);
    }
    Marked { text: plain, secrets }
}
