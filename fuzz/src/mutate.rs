//! Generates new inputs from known ones: bits, bytes, parts and words are changed, moved, duplicated and
//! removed. The same seed gives the same inputs.

/// A pseudo-random number generator (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below a bound; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.number() >> 16) as usize % bound }
    }
}

/// Bytes that often break parsers.
const ODD: &[u8] = b"\0\n\r\t \"'\\/.%{}[]:,=&+-_\x1b\x7f\x80\xc3\xff0Aa";

/// Generates an input from one of the known ones.
pub(crate) fn change(random: &mut Random, known: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = known.get(random.below(known.len())).cloned().unwrap_or_default();
    for _ in 0..1 + random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + 1 + random.below(32)).min(input.len());
        match random.below(9) {
            0 if at < input.len() => input[at] ^= 1 << random.below(8),
            1 if at < input.len() => input[at] = ODD[random.below(ODD.len())],
            2 => input.insert(at, ODD[random.below(ODD.len())]),
            3 if at < end => drop(input.drain(at..end)),
            4 if at < end => {
                let piece = input[at..end].to_vec();
                let most = if random.below(20) == 0 { 400 } else { 3 };
                let times = 1 + random.below(most);
                input.splice(at..at, piece.repeat(times));
            }
            5 | 6 if !words.is_empty() => {
                input.splice(at..at, words[random.below(words.len())].bytes());
            }
            7 => {
                let other = &known[random.below(known.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            _ => input.insert(at, random.number() as u8),
        }
    }
    input
}

/// A hash of bytes (FNV).
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
