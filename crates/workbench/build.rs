//! Makes the vocabulary of a tokenizer (`data/o200k.words`) a table that is read in place: no memory and no time at the start.
//! `src/answer/tokens.rs` reads it.

use std::error::Error;
use std::io::Write as _;

/// Slots of the hash table, a power of two above the number of words.
const SLOTS: usize = 1 << 18;

/// The number of words, the length of each, and the words by rank.
const WORDS: &str = "data/o200k.words";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={WORDS}");
    let file = std::fs::read(WORDS)?;
    let (count, rest) = file.split_first_chunk().ok_or("the vocabulary is empty")?;
    let (lengths, mut texts) =
        rest.split_at_checked(u32::from_le_bytes(*count) as usize).ok_or("the vocabulary is cut")?;
    let mut words: Vec<&[u8]> = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (word, after) = texts.split_at_checked(usize::from(*length)).ok_or("the vocabulary is cut")?;
        words.push(word);
        texts = after;
    }
    if words.len() >= SLOTS {
        return Err(format!("{} words do not fit", words.len()).into());
    }
    let mut slots = vec![0u32; SLOTS];
    let mut ends = Vec::with_capacity(words.len());
    let mut end = 0u32;
    for (rank, word) in words.iter().enumerate() {
        end += u32::try_from(word.len())?;
        ends.push(end);
        let mut slot = hash(word);
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = u32::try_from(rank)? + 1;
    }
    let folder = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no folder")?);
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join("o200k.bin"))?);
    let count = u32::try_from(ends.len())?;
    for number in [count].iter().chain(&slots).chain(&ends) {
        file.write_all(&number.to_le_bytes())?;
    }
    file.write_all(&words.concat())?;
    file.flush()?;
    Ok(())
}

/// FNV-1a; the reader has the same.
fn hash(word: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    ((hash ^ (hash >> 32)) % SLOTS as u64) as usize
}
