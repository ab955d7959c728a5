//! A model's name for a server's tool: `mcp__server__tool`, in the characters and the length that model APIs
//! accept. Pure.

/// The longest name of a tool that the OpenAI API accepts.
const NAME_MAX: usize = 64;

/// Returns the name of a tool. One that is too long keeps its beginning and gets a hash of the whole.
pub(super) fn shown(server: &str, tool: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') { letter } else { '_' }
    };
    let whole = format!("mcp__{server}__{tool}");
    let plain: String = whole.chars().map(letter).collect();
    if plain.len() <= NAME_MAX {
        return plain;
    }
    let number = format!("_{:08x}", fnv(whole.as_bytes()));
    format!("{}{number}", &plain[..NAME_MAX - number.len()])
}

/// FNV-1a: the same in every build, because the name is in the journal.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_letters_and_the_length_that_apis_take() {
        assert_eq!(shown("files", "read_file"), "mcp__files__read_file");
        assert_eq!(shown("a.b", "get/it now"), "mcp__a_b__get_it_now");
        let long = |end: &str| shown("server", &format!("{}{end}", "x".repeat(80)));
        assert_eq!(long("a").len(), NAME_MAX);
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
        assert_eq!(shown("s", "é".repeat(70).as_str()).len(), NAME_MAX);
    }
}
