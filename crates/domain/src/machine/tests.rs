//! The rules, tested as scripts and by property.
