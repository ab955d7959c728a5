//! Nobody gets in who should not, and everybody else is told apart.

mod callers;
mod pages;
mod users;
