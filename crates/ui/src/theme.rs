//! Colours and glyphs: which there are, by what the terminal can show. States are always told by glyph and word too.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;

/// How many colours the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorDepth {
    None,
    Sixteen,
    TwoFiftySix,
    True,
}

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Text,
    Dim,
    Strong,
    Good,
    Bad,
    Warn,
    Accent,
    Code,
    Heading,
    Added,
    Removed,
    Keyword,
    Literal,
    Comment,
}

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) depth: ColorDepth,
    pub(crate) light: bool,
    pub(crate) ascii: bool,
}

impl Theme {
    /// Chooses by the environment, given as a lookup.
    pub(crate) fn detect(var: impl Fn(&str) -> Option<String>, ascii: bool, no_color: bool) -> Self {
        let get = |name: &str| var(name).filter(|value| !value.is_empty());
        let term = get("TERM").unwrap_or_default();
        let depth = if no_color || get("NO_COLOR").is_some() || term == "dumb" {
            ColorDepth::None
        } else if get("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit") {
            ColorDepth::True
        } else if term.contains("256") || term.starts_with("tmux") || term.starts_with("screen") {
            ColorDepth::TwoFiftySix
        } else {
            ColorDepth::Sixteen
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| get(name)).unwrap_or_default();
        let utf8 = locale.to_ascii_lowercase().replace('-', "").contains("utf8");
        let background = get("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
        let light = background.is_some_and(|color| color == 7 || color >= 9);
        Self { depth, light, ascii: ascii || !utf8 }
    }

    /// Returns the style of a text.
    pub(crate) fn style(&self, role: Role) -> Style {
        let base = match role {
            Role::Strong | Role::Heading => Style::default().add_modifier(Modifier::BOLD),
            Role::Dim | Role::Comment if self.depth == ColorDepth::None => {
                Style::default().add_modifier(Modifier::DIM)
            }
            _ => Style::default(),
        };
        match self.color(role) {
            Some(color) => base.fg(color),
            None => base,
        }
    }

    /// Returns the style of what is selected.
    pub(crate) fn selected(&self) -> Style {
        Style::default().add_modifier(Modifier::REVERSED)
    }

    fn color(&self, role: Role) -> Option<Color> {
        // True colour on dark and on light, 256 on dark and on light, 16.
        let (dark, light, dark256, light256, named) = match role {
            Role::Text | Role::Strong => return None,
            Role::Dim | Role::Comment => ((0x8a, 0x93, 0x9c), (0x5f, 0x68, 0x70), 246, 242, Color::DarkGray),
            Role::Good | Role::Added => ((0x6c, 0xc6, 0x7a), (0x1a, 0x7f, 0x37), 114, 28, Color::Green),
            Role::Bad | Role::Removed => ((0xff, 0x7b, 0x72), (0xb3, 0x1d, 0x28), 210, 124, Color::Red),
            Role::Warn => ((0xe3, 0xb3, 0x41), (0x8a, 0x5a, 0x00), 179, 94, Color::Yellow),
            Role::Accent | Role::Heading => ((0x79, 0xb8, 0xff), (0x05, 0x50, 0xae), 111, 25, Color::Cyan),
            Role::Code | Role::Literal => ((0x9e, 0xcb, 0xff), (0x0a, 0x30, 0x69), 153, 24, Color::Cyan),
            Role::Keyword => ((0xd2, 0xa8, 0xff), (0x6f, 0x42, 0xc1), 183, 55, Color::Magenta),
        };
        let rgb = |(r, g, b)| Color::Rgb(r, g, b);
        match self.depth {
            ColorDepth::None => None,
            ColorDepth::Sixteen => Some(named),
            ColorDepth::TwoFiftySix => Some(Color::Indexed(if self.light { light256 } else { dark256 })),
            ColorDepth::True => Some(rgb(if self.light { light } else { dark })),
        }
    }

    /// Returns a glyph, or its substitute for terminals without it.
    pub(crate) fn glyph(&self, glyph: Glyph) -> &'static str {
        let (unicode, ascii) = match glyph {
            Glyph::Folded => ("▸", ">"),
            Glyph::Opened => ("▾", "v"),
            Glyph::Prompt => ("›", ">"),
            Glyph::Good => ("✓", "+"),
            Glyph::Bad => ("✕", "x"),
            Glyph::Running => ("●", "*"),
            Glyph::Waits => ("▲", "!"),
            Glyph::Pending => ("○", "o"),
            Glyph::Down => ("↓", "v"),
            Glyph::Separator => ("·", "|"),
            Glyph::Rule => ("─", "-"),
            Glyph::Selected => ("▌", ">"),
            Glyph::Full => ("▓", "#"),
            Glyph::Empty => ("░", "."),
            Glyph::Minus => ("−", "-"),
            Glyph::Quote => ("│", "|"),
            Glyph::Bullet => ("•", "*"),
        };
        if self.ascii { ascii } else { unicode }
    }

    /// Returns the border of a pane or, thicker, of a card.
    pub(crate) fn border(&self, card: bool) -> border::Set<'static> {
        const ASCII: border::Set<'static> = border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        };
        match (self.ascii, card) {
            (true, _) => ASCII,
            (false, false) => border::PLAIN,
            (false, true) => border::THICK,
        }
    }
}

/// Returns what a terminal without Unicode shows for a symbol.
pub(crate) fn ascii_symbol(symbol: &str) -> &'static str {
    match symbol {
        "…" => "~",
        "·" | "│" | "┃" => "|",
        "−" | "─" | "━" => "-",
        "›" | "→" => ">",
        "↓" => "v",
        "⏎" => "<",
        _ => "?",
    }
}

/// A picture of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glyph {
    Folded,
    Opened,
    Prompt,
    Good,
    Bad,
    Running,
    Waits,
    Pending,
    Down,
    Separator,
    Rule,
    Selected,
    Full,
    Empty,
    Minus,
    Quote,
    Bullet,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(vars: &[(&str, &str)]) -> (ColorDepth, bool, bool) {
        let var = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        let theme = Theme::detect(var, false, false);
        (theme.depth, theme.light, theme.ascii)
    }

    #[test]
    fn colours_and_glyphs_follow_the_environment() {
        let utf8 = ("LANG", "C.UTF-8");
        assert_eq!(depth(&[("TERM", "xterm-256color"), utf8]), (ColorDepth::TwoFiftySix, false, false));
        assert_eq!(depth(&[("TERM", "xterm"), utf8]).0, ColorDepth::Sixteen);
        assert_eq!(depth(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]).0, ColorDepth::True);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).0, ColorDepth::None);
        assert!(depth(&[("COLORFGBG", "0;15")]).1);
        assert!(!depth(&[("COLORFGBG", "15;0")]).1);
        assert!(depth(&[("LANG", "C")]).2);
        assert!(!depth(&[("LC_ALL", "de_DE.UTF-8"), ("LANG", "C")]).2);
    }
}
