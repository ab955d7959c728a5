//! A value with a revision that grows with every change, so that the code that stores it need not serialise it to find out
//! whether it changed. Must not know what it holds.

use std::ops::{Deref, DerefMut};

/// A value with a revision: two with the same revision, one of them a copy of the other, are equal. Whoever borrows the value
/// mutably changes the revision, so a change cannot be missed; reading it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revisioned<T> {
    value: T,
    revision: u64,
}

impl<T> Revisioned<T> {
    /// Returns the revision of the value.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl<T> From<T> for Revisioned<T> {
    fn from(value: T) -> Self {
        Self { value, revision: 0 }
    }
}

impl<T> Deref for Revisioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Revisioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.revision += 1;
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_and_a_look_is_not() {
        let mut text = Revisioned::from(String::new());
        let copy = text.clone();
        assert!(text.is_empty());
        assert_eq!(text.revision(), copy.revision());
        text.push('a');
        assert_ne!(text.revision(), copy.revision());
        assert!(copy.is_empty());
    }
}
