//! Bounds against hostile templates: a template comes with a downloaded model and is not trusted.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Work that every rendering may do: one unit is one instruction, or 64 bytes of text made.
pub const BASE_FUEL: u64 = 1_000_000;
/// Further units for each byte of the request, so that long conversations have room.
pub const FUEL_PER_BYTE: u64 = 2;
/// The longest rendered prompt without regard to the request, bytes.
pub const BASE_OUTPUT: usize = 16 << 20;
/// Further bytes of output for each byte of the request.
pub const OUTPUT_PER_BYTE: usize = 16;
/// The longest template, bytes.
pub const MAX_SOURCE: usize = 2 << 20;
/// The most bytes that one filter or method may make at once.
pub const MAX_TEXT: usize = 32 << 20;
/// Jinja's sandbox refuses a longer `range`.
pub const MAX_RANGE: i64 = 100_000;
/// Stack for compiling and rendering; both recurse with the template and with the values. Pages are taken when touched.
pub const STACK: usize = 64 << 20;

/// An error whose text starts with `limit:`, which the caller tells apart from a failing operation.
pub fn limit(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("limit: {what}"))
}

/// Refuses a text of `bytes` before it is made, and checks that fuel is left at all.
pub fn check_text(state: &State, bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT {
        return Err(limit("the template makes a text that is too long"));
    }
    state.consume_fuel(0)
}

/// Pays for `bytes` of text before they are made.
pub fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    check_text(state, bytes)?;
    state.consume_fuel(bytes as u64 / 64)
}

/// Pays for what a format string can make of its arguments: widths, and arguments named again and again.
pub fn check_format(state: &State, pattern: &str, args: &[Value]) -> Result<(), Error> {
    let mut widths = 0usize;
    let mut fields = 0usize;
    let mut number = 0usize;
    for c in pattern.chars().chain([' ']) {
        match c.to_digit(10) {
            Some(digit) => number = number.saturating_mul(10).saturating_add(digit as usize),
            None => {
                widths = widths.saturating_add(number);
                number = 0;
                fields += usize::from(matches!(c, '{' | '%' | '*'));
            }
        }
    }
    // A width may also come from the arguments.
    let nested = pattern.contains('*') || pattern.contains(":{");
    let mut longest = 400usize;
    for arg in args {
        longest = longest.max(match arg.kind() {
            ValueKind::String => arg.as_str().map_or(0, str::len),
            ValueKind::Number if nested => arg.as_usize().unwrap_or(0),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                crate::python::to_str(state, arg)?.len()
            }
            _ => 0,
        });
    }
    charge(state, widths.saturating_add(fields.saturating_mul(longest)))
}
