//! Chat templates for Ondol's C++ side: minijinja, made to behave as Jinja2 under Hugging Face's `apply_chat_template`.
//!
//! The C ABI is in `abi.rs` and `include/ondol_rust.h`. Nothing here reads files, the environment or the clock.

pub mod abi;
pub mod prompt;
pub mod request;
pub mod template;

mod filters;
mod json;
mod limits;
mod methods;
mod objects;
mod python;
mod rewrite;
mod strftime;

/// What went wrong; the numbers are part of the C ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FailureKind {
    /// The template cannot be compiled.
    Syntax = 1,
    /// The template called `raise_exception`.
    Raise = 2,
    /// Something that does not exist was used.
    Undefined = 3,
    /// An operation failed.
    Runtime = 4,
    /// A bound on time, memory, output or nesting stopped it.
    Limit = 5,
    /// The request itself was refused before the template ran.
    Api = 6,
    /// A bug of this library.
    Internal = 7,
}

/// An error with the template's line, counted from 1; 0 where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    pub line: u32,
}

/// Marks an error as the template's own `raise_exception`.
#[derive(Debug)]
pub(crate) struct Raised;

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("raised by the template")
    }
}

impl std::error::Error for Raised {}
