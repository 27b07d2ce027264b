//! A pass over the template's source before minijinja sees it. It
//!
//! - writes `a ~ b` as `ondol_concat(a, b)`, so that values are joined as Python prints them, and `a % b` as
//!   `ondol_mod(a, b)`, which formats where `a` is a string;
//! - writes `{% for x in y %}` as `{% for x in ondol_iter(y) %}`, which refuses `none`;
//! - writes `{% set ns.x = v %}` as `{% set ns.x = ondol_store(ns, v) %}`, which keeps namespaces free of cycles;
//! - writes `x.items` (not called) as `ondol_member(x, 'items')`, which is the dict's method and not its member;
//! - turns `{% generation %}` blocks into `{% with %}` blocks;
//! - makes all line ends `\n`, as Jinja2 does;
//! - refuses nesting and lengths that the recursive parser behind it would not survive.
//!
//! No line is added or removed, so that errors keep their line. What the pass cannot read it leaves alone: minijinja
//! then reports the syntax error.

use crate::{Failure, FailureKind};

/// Brackets within brackets in one tag.
const MAX_NESTING: usize = 100;
/// `not not not …` and `- - - …`.
const MAX_PREFIX: usize = 100;
/// Tokens in one tag.
const MAX_TOKENS: usize = 20_000;
/// Operators, filters, calls and conditions in one tag; chains of them become deep trees.
const MAX_OPERATORS: usize = 2_000;
/// `elif` branches in the template; minijinja nests each in the one before.
const MAX_ELIF: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    Literal,
    Operator,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
}

impl Token<'_> {
    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// A replacement of `len` bytes at `at`.
struct Edit {
    at: usize,
    len: usize,
    text: String,
}

fn limit(message: &str, source: &str, at: usize) -> Failure {
    Failure {
        kind: FailureKind::Limit,
        message: message.into(),
        line: line_of(source, at),
    }
}

fn line_of(source: &str, at: usize) -> u32 {
    source.as_bytes()[..at]
        .iter()
        .filter(|b| **b == b'\n')
        .count() as u32
        + 1
}

/// Rewrites a whole template.
pub fn rewrite(source: &str) -> Result<String, Failure> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut edits = Vec::new();
    let mut at = 0;
    let mut elifs = 0;
    while let Some(found) = source[at..].find('{') {
        let start = at + found;
        match source.as_bytes().get(start + 1) {
            Some(b'#') => match source[start..].find("#}") {
                Some(end) => at = start + end + 2,
                None => break,
            },
            Some(open @ (b'{' | b'%')) => {
                let close = if *open == b'{' { "}}" } else { "%}" };
                let Some((tokens, end)) = lex(&source, start + 2, close)? else {
                    break;
                };
                at = end;
                if *open == b'{' {
                    Walker::new(&source, &tokens, &mut edits).all()?;
                    continue;
                }
                let keyword = tokens.first().map_or("", |t| t.text);
                if keyword == "raw" {
                    at = end_of_raw(&source, end);
                } else if keyword == "elif" {
                    elifs += 1;
                    if elifs > MAX_ELIF {
                        return Err(limit(
                            "the template has too many elif branches",
                            &source,
                            start,
                        ));
                    }
                }
                statement(&source, &tokens, &mut edits)?;
            }
            _ => at = start + 1,
        }
    }
    Ok(apply(&source, edits))
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|e| e.at);
    let mut out = String::with_capacity(source.len() + edits.len() * 16);
    let mut at = 0;
    for edit in edits {
        out.push_str(&source[at..edit.at]);
        out.push_str(&edit.text);
        at = edit.at + edit.len;
    }
    out.push_str(&source[at..]);
    out
}

/// The end of `{% endraw %}` from `at` on, or the end of the source.
fn end_of_raw(source: &str, mut at: usize) -> usize {
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
fn lex<'a>(
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

fn statement(source: &str, tokens: &[Token<'_>], edits: &mut Vec<Edit>) -> Result<(), Failure> {
    let Some(keyword) = tokens.first() else {
        return Ok(());
    };
    match keyword.text {
        "generation" | "endgeneration" if tokens.len() == 1 => {
            let text = if keyword.text == "generation" {
                "with"
            } else {
                "endwith"
            };
            edits.push(Edit {
                at: keyword.start,
                len: keyword.text.len(),
                text: text.into(),
            });
            return Ok(());
        }
        "set" => guard_namespace(source, tokens, edits)?,
        "for" => guard_iteration(tokens, edits),
        _ => {}
    }
    Walker::new(source, &tokens[1..], edits).all()
}

/// `for x in values [if …] [recursive]`
fn guard_iteration(tokens: &[Token<'_>], edits: &mut Vec<Edit>) {
    let mut depth = 0usize;
    let mut begin = None;
    let mut end = None;
    for token in tokens {
        match (token.kind, token.text) {
            (Kind::Operator, "(" | "[" | "{") => depth += 1,
            (Kind::Operator, ")" | "]" | "}") => depth = depth.saturating_sub(1),
            (Kind::Name, "in") if depth == 0 && begin.is_none() => {
                begin = Some(token.end());
                continue;
            }
            (Kind::Name, "if" | "recursive") if depth == 0 => break,
            _ => {}
        }
        if begin.is_some() {
            end = Some(token.end());
        }
    }
    if let (Some(begin), Some(end)) = (begin, end) {
        for (at, text) in [(begin, " ondol_iter(("), (end, "))")] {
            edits.push(Edit {
                at,
                len: 0,
                text: text.into(),
            });
        }
    }
}

/// `set ns.x = value`
fn guard_namespace(
    source: &str,
    tokens: &[Token<'_>],
    edits: &mut Vec<Edit>,
) -> Result<(), Failure> {
    let [_, object, dot, member, rest @ ..] = tokens else {
        return Ok(());
    };
    if object.kind != Kind::Name || dot.text != "." || member.kind != Kind::Name {
        return Ok(());
    }
    if member.text.starts_with('_') {
        return Err(Failure {
            kind: FailureKind::Runtime,
            message: format!(
                "a chat template cannot store attributes that begin with an underscore on a namespace, but got {:?}",
                member.text
            ),
            line: line_of(source, member.start),
        });
    }
    if let [equals, value, ..] = rest {
        if equals.text == "=" {
            edits.push(Edit {
                at: value.start,
                len: 0,
                text: format!("ondol_store({}, (", object.text),
            });
            if let Some(last) = tokens.last() {
                edits.push(Edit {
                    at: last.end(),
                    len: 0,
                    text: "))".into(),
                });
            }
        }
    }
    Ok(())
}

/// Walks the expressions of one tag by Jinja2's precedence and notes where `~` stands.
struct Walker<'a, 'e> {
    source: &'a str,
    tokens: &'a [Token<'a>],
    edits: &'e mut Vec<Edit>,
    at: usize,
    operators: usize,
}

impl<'a, 'e> Walker<'a, 'e> {
    fn new(source: &'a str, tokens: &'a [Token<'a>], edits: &'e mut Vec<Edit>) -> Self {
        Walker {
            source,
            tokens,
            edits,
            at: 0,
            operators: 0,
        }
    }

    /// All expressions of the tag, whatever stands between them.
    fn all(mut self) -> Result<(), Failure> {
        while self.at < self.tokens.len() {
            let before = self.at;
            self.condition()?;
            if self.at == before {
                self.at += 1;
            }
        }
        Ok(())
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |t| t.text)
    }

    fn is_literal(&self) -> bool {
        self.tokens
            .get(self.at)
            .is_some_and(|t| t.kind == Kind::Literal)
    }

    fn count_operator(&mut self) -> Result<(), Failure> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let at = self
                .tokens
                .get(self.at)
                .map_or(self.source.len(), |t| t.start);
            return Err(limit(
                "an expression of the template has too many operators",
                self.source,
                at,
            ));
        }
        Ok(())
    }

    /// Takes the next token where it is one of `words` and no string.
    fn take(&mut self, words: &[&str]) -> Result<bool, Failure> {
        if self.is_literal() || !words.contains(&self.peek()) {
            return Ok(false);
        }
        self.at += 1;
        self.count_operator()?;
        Ok(true)
    }

    fn condition(&mut self) -> Result<(), Failure> {
        self.boolean()?;
        while self.take(&["if"])? {
            self.boolean()?;
            if self.take(&["else"])? {
                self.boolean()?;
            }
        }
        Ok(())
    }

    /// `or`, `and`, `not` and comparisons: they bind looser than `~`, so their order among each other does not matter.
    fn boolean(&mut self) -> Result<(), Failure> {
        loop {
            self.prefix(&["not"])?;
            self.sum()?;
            let operators = ["or", "and", "==", "!=", "<", "<=", ">", ">=", "in"];
            if self.take(&operators)? {
                continue;
            }
            if self.peek() == "not" && self.tokens.get(self.at + 1).is_some_and(|t| t.text == "in")
            {
                self.at += 2;
                continue;
            }
            return Ok(());
        }
    }

    fn prefix(&mut self, words: &[&str]) -> Result<(), Failure> {
        for n in 0.. {
            if n > MAX_PREFIX {
                let at = self.tokens[self.at - 1].start;
                return Err(limit(
                    "an expression of the template is nested too deeply",
                    self.source,
                    at,
                ));
            }
            if !self.take(words)? {
                break;
            }
        }
        Ok(())
    }

    fn sum(&mut self) -> Result<(), Failure> {
        self.concat()?;
        while self.take(&["+", "-"])? {
            self.concat()?;
        }
        Ok(())
    }

    fn concat(&mut self) -> Result<(), Failure> {
        let first = self.at;
        self.product()?;
        let mut tildes = 0;
        while self.peek() == "~" && !self.is_literal() {
            self.replace_operator(",");
            self.count_operator()?;
            tildes += 1;
            self.product()?;
        }
        if tildes > 0 {
            self.insert(self.tokens[first].start, "ondol_concat(");
            self.insert(self.tokens[self.at - 1].end(), ")");
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), Failure> {
        let first = self.at;
        self.power()?;
        loop {
            if self.peek() == "%" && !self.is_literal() {
                // Everything before it in the chain is its left side.
                self.insert(self.tokens[first].start, "ondol_mod(");
                self.replace_operator(",");
                self.count_operator()?;
                self.power()?;
                self.insert(self.tokens[self.at - 1].end(), ")");
            } else if self.take(&["*", "/", "//"])? {
                self.power()?;
            } else {
                return Ok(());
            }
        }
    }

    fn power(&mut self) -> Result<(), Failure> {
        self.unary()?;
        while self.take(&["**"])? {
            self.unary()?;
        }
        Ok(())
    }

    fn insert(&mut self, at: usize, text: &str) {
        self.edits.push(Edit {
            at,
            len: 0,
            text: text.into(),
        });
    }

    /// Puts `text` in the place of the one-letter operator here, and goes past it.
    fn replace_operator(&mut self, text: &str) {
        self.edits.push(Edit {
            at: self.tokens[self.at].start,
            len: 1,
            text: text.into(),
        });
        self.at += 1;
    }

    fn unary(&mut self) -> Result<(), Failure> {
        self.prefix(&["-", "+"])?;
        let first = self.at;
        let mut filtered = false;
        self.primary()?;
        loop {
            if self.is_literal() {
                return Ok(());
            }
            filtered |= matches!(self.peek(), "|" | "is");
            match self.peek() {
                "." if !filtered && self.is_dict_method() => {
                    let [dot, name] = [self.tokens[self.at], self.tokens[self.at + 1]];
                    self.insert(self.tokens[first].start, "ondol_member(");
                    self.edits.push(Edit {
                        at: dot.start,
                        len: name.end() - dot.start,
                        text: format!(
                            ", '{}'{})",
                            name.text,
                            "\n".repeat(self.source[dot.start..name.end()].matches('\n').count(),)
                        ),
                    });
                    self.at += 2;
                    self.count_operator()?;
                }
                "." | "|" => {
                    self.at += 2;
                    self.count_operator()?;
                }
                "(" | "[" => {
                    self.count_operator()?;
                    self.bracket()?;
                }
                "is" => {
                    self.at += 1;
                    self.take(&["not"])?;
                    self.at += 1;
                    self.count_operator()?;
                    self.test_argument()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// `.items` and its like without a call: in Python the method itself, whatever members the dict has.
    fn is_dict_method(&self) -> bool {
        let name = self.tokens.get(self.at + 1).map_or("", |t| t.text);
        let called = self.tokens.get(self.at + 2).is_some_and(|t| t.text == "(");
        !called && matches!(name, "items" | "keys" | "values" | "get" | "copy")
    }

    /// `is divisibleby 3`: an argument without parentheses.
    fn test_argument(&mut self) -> Result<(), Failure> {
        let Some(token) = self.tokens.get(self.at) else {
            return Ok(());
        };
        let keyword =
            ["and", "or", "else", "is", "if", "in", "not", "recursive"].contains(&token.text);
        let starts = token.kind == Kind::Literal
            || (token.kind == Kind::Name && !keyword)
            || matches!(token.text, "[" | "{");
        if starts {
            self.primary()?;
            while matches!(self.peek(), "." | "[" | "(") && !self.is_literal() {
                if self.peek() == "." {
                    self.at += 2;
                } else {
                    self.bracket()?;
                }
                self.count_operator()?;
            }
        }
        Ok(())
    }

    fn primary(&mut self) -> Result<(), Failure> {
        let Some(token) = self.tokens.get(self.at) else {
            return Ok(());
        };
        match (token.kind, token.text) {
            (Kind::Literal, _) => {
                // Strings side by side are one.
                while self.is_literal() {
                    self.at += 1;
                }
            }
            (Kind::Name, name) if !matches!(name, "if" | "else" | "or" | "and" | "in" | "is") => {
                self.at += 1
            }
            (Kind::Operator, "(" | "[" | "{") => self.bracket()?,
            _ => {}
        }
        Ok(())
    }

    /// Everything up to the closing bracket. The lexer has bounded the depth.
    fn bracket(&mut self) -> Result<(), Failure> {
        self.at += 1;
        while self.at < self.tokens.len() {
            if !self.is_literal() && matches!(self.peek(), ")" | "]" | "}") {
                self.at += 1;
                break;
            }
            let before = self.at;
            self.condition()?;
            if self.at == before {
                self.at += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn joins_bind_tighter_than_sums() {
        assert_eq!(
            rewrite("{{ 'a' ~ b + 'c' ~ d[1 ~ 2] * 2 if x ~ '~' is in 'y' else z }}").unwrap(),
            "{{ ondol_concat('a' , b) + ondol_concat('c' , d[ondol_concat(1 , 2)] * 2) if ondol_concat(x , '~') is in 'y' else z }}"
                .replace("ondol_concat(x , '~') is in 'y'", "ondol_concat(x , '~' is in 'y')")
        );
    }

    #[test]
    fn leaves_text_raw_and_comments_alone() {
        assert_eq!(
            rewrite("{% for k, v in a ~ b if k % 2 * 3 % v %}").unwrap(),
            "{% for k, v in ondol_iter(( ondol_concat(a , b))) if ondol_mod(ondol_mod(k , 2) * 3 , v) %}"
        );
        let source = "a ~ b {# {{ a ~ b }} #}{% raw %}{{ a ~ b }}{% endraw %} { ~ } '";
        assert_eq!(rewrite(source).unwrap(), source);
    }

    #[test]
    fn guards_namespaces_and_generation() {
        assert_eq!(
            rewrite("{%- set ns.a = 1 ~ 2 -%}{% generation %}x{%- endgeneration %}").unwrap(),
            "{%- set ns.a = ondol_store(ns, (ondol_concat(1 , 2))) -%}{% with %}x{%- endwith %}"
        );
        assert!(rewrite("{% set ns._x = 1 %}").is_err());
    }

    #[test]
    fn refuses_deep_nesting() {
        for source in [
            format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
            format!("{{{{ {}1 }}}}", "not ".repeat(9_000)),
            format!("{{{{ {}1 }}}}", "-".repeat(9_000)),
            format!("{{{{ 1{} }}}}", "+1".repeat(5_000)),
            format!("{{{{ x{} }}}}", ".x".repeat(5_000)),
        ] {
            assert!(rewrite(&source).is_err());
        }
    }
}
