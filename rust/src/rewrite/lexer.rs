//! The tokens of a template's tags.

use super::limit;
use crate::Failure;

/// Brackets within brackets in one tag.
const MAX_NESTING: usize = 100;
/// Tokens in one tag.
const MAX_TOKENS: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Name,
    Literal,
    Operator,
}

#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub start: usize,
}

impl Token<'_> {
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The end of `{% endraw %}` from `at` on, or the end of the source.
pub fn end_of_raw(source: &str, mut at: usize) -> usize {
    while let Some(found) = source[at..].find("{%") {
        let start = at + found + 2;
        let inside = source[start..].trim_start_matches(['-', '+']).trim_start();
        if inside.starts_with("endraw") {
            return source[start..]
                .find("%}")
                .map_or(source.len(), |i| start + i + 2);
        }
        at = start;
    }
    source.len()
}

/// The tokens of a tag and where the source goes on after it; None where the tag has no end.
pub fn lex<'a>(
    source: &'a str,
    from: usize,
    close: &str,
) -> Result<Option<(Vec<Token<'a>>, usize)>, Failure> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = from;
    let mut depth = 0usize;
    if matches!(bytes.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    while at < bytes.len() {
        let rest = &source[at..];
        let c = rest.chars().next().unwrap_or(' ');
        if depth == 0 {
            let signed = rest.starts_with(['-', '+']) && rest[1..].starts_with(close);
            if signed || rest.starts_with(close) {
                return Ok(Some((tokens, at + usize::from(signed) + 2)));
            }
        }
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (kind, length) = match c {
            '"' | '\'' => match string_length(rest, c) {
                Some(length) => (Kind::Literal, length),
                None => return Ok(None),
            },
            '0'..='9' => (Kind::Literal, number_length(rest)),
            c if c == '_' || c.is_alphabetic() => {
                let word = |c: char| {
                    c.is_whitespace() || (c.is_ascii() && c != '_' && !c.is_alphanumeric())
                };
                (Kind::Name, rest.find(word).unwrap_or(rest.len()))
            }
            _ => (Kind::Operator, operator_length(rest, c)),
        };
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(limit(
                "an expression of the template is nested too deeply",
                source,
                at,
            ));
        }
        tokens.push(Token {
            kind,
            text: &rest[..length],
            start: at,
        });
        if tokens.len() > MAX_TOKENS {
            return Err(limit(
                "an expression of the template is too long",
                source,
                at,
            ));
        }
        at += length;
    }
    Ok(None)
}

fn string_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}

fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let digit = bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_';
        let point = bytes[i] == b'.' && bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
        let sign = matches!(bytes[i], b'+' | b'-')
            && i > 0
            && matches!(bytes[i - 1], b'e' | b'E')
            && !rest.starts_with("0x")
            && bytes.get(i + 1).is_some_and(u8::is_ascii_digit);
        if !(digit || point || sign) {
            break;
        }
        i += 1;
    }
    i.max(1)
}

fn operator_length(rest: &str, c: char) -> usize {
    for two in ["//", "**", "==", "!=", ">=", "<="] {
        if rest.starts_with(two) {
            return 2;
        }
    }
    c.len_utf8()
}
