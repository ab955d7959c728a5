//! The styles of text on a terminal.

/// The style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Warn,
    Accent,
    Italic,
    Heading,
    Code,
    /// A colour of the terminal's palette, 0 to 15.
    Palette(u8),
}

impl TextStyle {
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warn => "\x1b[33m",
            Self::Accent | Self::Code => "\x1b[36m",
            Self::Italic => "\x1b[3m",
            Self::Heading => "\x1b[1;35m",
            Self::Palette(number) => {
                const COLOURS: [&str; 16] = [
                    "\x1b[30m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m",
                    "\x1b[37m", "\x1b[90m", "\x1b[91m", "\x1b[92m", "\x1b[93m", "\x1b[94m", "\x1b[95m",
                    "\x1b[96m", "\x1b[97m",
                ];
                COLOURS.get(usize::from(number)).copied().unwrap_or_default()
            }
        }
    }
}
