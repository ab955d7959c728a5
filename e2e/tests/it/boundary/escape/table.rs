//! The words of the tables: an attempt, and what is expected of it at each tier. Runs nothing.

/// Whose daemon it is, and how its agent runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tier {
    /// Another user than this test's.
    pub(super) user: Option<u32>,
    /// Whether the agent is in the sandbox.
    pub(super) contained: bool,
}

/// What must become of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// The daemon hears it and says no.
    Refused,
    /// It has no effect, for whatever reason.
    Impossible,
    /// Nothing of ours stands in the way of a program with the user's rights: it must succeed, or the table is wrong.
    Possible,
    /// It depends on the machine, for this reason.
    Depends(&'static str),
}

/// One way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    pub(super) name: &'static str,
    /// A shell line; its variables are set by the arena.
    pub(super) run: &'static str,
    /// Without the sandbox.
    pub(super) open: Expect,
    /// The same for root, where it differs.
    pub(super) open_as_root: Option<Expect>,
    /// In the sandbox.
    pub(super) contained: Expect,
    /// Not tried without the sandbox: what it does there is the machine's business, or harm.
    pub(super) inside_only: bool,
}

impl Try {
    pub(super) fn is_tried(&self, tier: Tier) -> bool {
        tier.contained || !self.inside_only
    }

    pub(super) fn expected(&self, tier: Tier) -> Expect {
        match (tier.contained, tier.user, self.open_as_root) {
            (true, ..) => self.contained,
            (false, None, Some(as_root)) => as_root,
            _ => self.open,
        }
    }

    /// The same with another expectation for root without the sandbox.
    pub(super) const fn as_root(mut self, expected: Expect) -> Try {
        self.open_as_root = Some(expected);
        self
    }

    /// The same with another expectation without the sandbox.
    pub(super) const fn without_sandbox(mut self, expected: Expect) -> Try {
        self.open = expected;
        self
    }

    /// The same with another expectation inside the sandbox.
    pub(super) const fn in_sandbox(mut self, expected: Expect) -> Try {
        self.contained = expected;
        self
    }
}

/// The daemon hears it and refuses it, wherever the agent is.
pub(super) const fn refused(name: &'static str, run: &'static str) -> Try {
    Try {
        name,
        run,
        open: Expect::Refused,
        open_as_root: None,
        contained: Expect::Refused,
        inside_only: false,
    }
}

/// It has no effect at any tier.
pub(super) const fn impossible(name: &'static str, run: &'static str) -> Try {
    Try {
        name,
        run,
        open: Expect::Impossible,
        open_as_root: None,
        contained: Expect::Impossible,
        inside_only: false,
    }
}

/// A program with the user's rights can do it; in the sandbox it has no effect.
pub(super) const fn inherent(name: &'static str, run: &'static str) -> Try {
    Try {
        name,
        run,
        open: Expect::Possible,
        open_as_root: None,
        contained: Expect::Impossible,
        inside_only: false,
    }
}

/// It depends on the machine without the sandbox; in the sandbox it has no effect.
pub(super) const fn depends(name: &'static str, why: &'static str, run: &'static str) -> Try {
    Try {
        name,
        run,
        open: Expect::Depends(why),
        open_as_root: None,
        contained: Expect::Impossible,
        inside_only: false,
    }
}

/// Tried in the sandbox only, where it has no effect.
pub(super) const fn inside(name: &'static str, run: &'static str) -> Try {
    Try { inside_only: true, ..impossible(name, run) }
}
