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

mod lexer;
use lexer::{end_of_raw, lex, Kind, Token};

/// `not not not …` and `- - - …`.
const MAX_PREFIX: usize = 100;
/// Operators, filters, calls and conditions in one tag; chains of them become deep trees.
const MAX_OPERATORS: usize = 2_000;
/// `elif` branches in the template; minijinja nests each in the one before.
const MAX_ELIF: usize = 500;

/// What to put where.
enum Change {
    /// Closes the brackets of an opening.
    Close(&'static str),
    /// Opens something that spans up to this place of the source.
    Open(String, usize),
    /// Stands for this many bytes.
    Replace(String, usize),
}

struct Edit {
    at: usize,
    change: Change,
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
                let mut walker = Walker::new(&source, &tokens);
                if *open == b'%' {
                    let keyword = tokens.first().map_or("", |t| t.text);
                    if keyword == "raw" {
                        at = end_of_raw(&source, end);
                    }
                    elifs += usize::from(keyword == "elif");
                    if elifs > MAX_ELIF {
                        return Err(limit(
                            "the template has too many elif branches",
                            &source,
                            start,
                        ));
                    }
                    walker.statement()?;
                } else {
                    walker.all()?;
                }
                if !walker.malformed {
                    edits.extend(ordered(walker.edits).into_iter().flatten());
                }
            }
            _ => at = start + 1,
        }
    }
    Ok(apply(&source, &edits))
}

/// Puts the edits in order: at one place brackets close before others open, and the widest opens first.
fn ordered(edits: Vec<Edit>) -> Option<Vec<Edit>> {
    let mut numbered: Vec<(usize, Edit)> = edits.into_iter().enumerate().collect();
    numbered.sort_by_key(|(number, edit)| match edit.change {
        Change::Close(_) => (edit.at, 0, 0, 0),
        Change::Open(_, end) => (edit.at, 1, usize::MAX - end, usize::MAX - number),
        Change::Replace(..) => (edit.at, 2, 0, *number),
    });
    let edits: Vec<Edit> = numbered.into_iter().map(|(_, edit)| edit).collect();
    let mut free = 0;
    for edit in &edits {
        if edit.at < free {
            return None;
        }
        free = match edit.change {
            Change::Replace(_, len) => edit.at + len,
            _ => edit.at,
        };
    }
    Some(edits)
}

fn apply(source: &str, edits: &[Edit]) -> String {
    let mut out = String::with_capacity(source.len() + edits.len() * 16);
    let mut at = 0;
    for edit in edits {
        out.push_str(&source[at..edit.at]);
        let (text, len) = match &edit.change {
            Change::Close(text) => (*text, 0),
            Change::Open(text, _) => (text.as_str(), 0),
            Change::Replace(text, len) => (text.as_str(), *len),
        };
        out.push_str(text);
        at = edit.at + len;
    }
    out.push_str(&source[at..]);
    out
}

/// Walks the expressions of one tag by Jinja2's precedence and notes what to change.
struct Walker<'a> {
    source: &'a str,
    tokens: &'a [Token<'a>],
    edits: Vec<Edit>,
    at: usize,
    operators: usize,
    /// An operand is missing: the tag stays as it is, for minijinja to complain.
    malformed: bool,
}

impl<'a> Walker<'a> {
    fn new(source: &'a str, tokens: &'a [Token<'a>]) -> Self {
        Walker {
            source,
            tokens,
            edits: Vec::new(),
            at: 0,
            operators: 0,
            malformed: false,
        }
    }

    fn statement(&mut self) -> Result<(), Failure> {
        let Some(keyword) = self.tokens.first() else {
            return Ok(());
        };
        match keyword.text {
            "generation" | "endgeneration" if self.tokens.len() == 1 => {
                let text = keyword.text.replace("generation", "with");
                self.replace(keyword.start, keyword.text.len(), text);
                return Ok(());
            }
            "set" => self.guard_namespace()?,
            "for" => {
                // The targets are no operands of `in`.
                self.at = self.guard_iteration();
                return self.all();
            }
            _ => {}
        }
        self.at = 1;
        self.all()
    }

    /// `for x in values [if …] [recursive]`; returns where the values begin.
    fn guard_iteration(&mut self) -> usize {
        let mut depth = 0usize;
        let mut begin = None;
        let mut end = None;
        let mut values = 1;
        for (i, token) in self.tokens.iter().enumerate() {
            match (token.kind, token.text) {
                (Kind::Operator, "(" | "[" | "{") => depth += 1,
                (Kind::Operator, ")" | "]" | "}") => depth = depth.saturating_sub(1),
                (Kind::Name, "in") if depth == 0 && begin.is_none() => {
                    begin = Some(token.end());
                    values = i + 1;
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
            self.open(begin, usize::MAX, " ondol_iter((".into());
            self.close(end, "))");
        }
        values
    }

    /// `set ns.x = value`
    fn guard_namespace(&mut self) -> Result<(), Failure> {
        let [_, object, dot, member, rest @ ..] = self.tokens else {
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
                line: line_of(self.source, member.start),
            });
        }
        if let [equals, value, .., last] | [equals, value @ last] = rest {
            if equals.text == "=" {
                let text = format!("ondol_store({}, (", object.text);
                self.open(value.start, usize::MAX, text);
                self.close(last.end(), "))");
            }
        }
        Ok(())
    }

    fn open(&mut self, at: usize, end: usize, text: String) {
        self.edits.push(Edit {
            at,
            change: Change::Open(text, end),
        });
    }

    fn close(&mut self, at: usize, text: &'static str) {
        self.edits.push(Edit {
            at,
            change: Change::Close(text),
        });
    }

    fn replace(&mut self, at: usize, len: usize, text: String) {
        self.edits.push(Edit {
            at,
            change: Change::Replace(text, len),
        });
    }

    /// Makes the tokens from `first` up to here the arguments of a function.
    fn wrap(&mut self, first: usize, function: &str) {
        if self.at <= first || self.at > self.tokens.len() {
            self.malformed = true;
            return;
        }
        let end = self.tokens[self.at - 1].end();
        self.open(self.tokens[first].start, end, format!("{function}("));
        self.close(end, ")");
    }

    /// Puts `text` in the place of the one-letter operator here, and goes past it.
    fn replace_operator(&mut self, text: &str) {
        self.replace(self.tokens[self.at].start, 1, text.into());
        self.at += 1;
    }

    /// All expressions of the tag, whatever stands between them.
    fn all(&mut self) -> Result<(), Failure> {
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

    /// `or`, `and`, `not` and comparisons.
    fn boolean(&mut self) -> Result<(), Failure> {
        self.comparison()?;
        while self.take(&["or", "and"])? {
            self.comparison()?;
        }
        Ok(())
    }

    /// `a < b`, `a in b`, `a < b < c`. minijinja pays little for comparing nested values, so operands are weighed first
    /// unless one is a literal, which bounds the work.
    fn comparison(&mut self) -> Result<(), Failure> {
        self.prefix(&["not"])?;
        let mut operands = vec![self.operand()?];
        let mut bounded = operands[0].2;
        let mut containment = false;
        loop {
            let negated = self.peek() == "not"
                && self.tokens.get(self.at + 1).is_some_and(|t| t.text == "in");
            if negated {
                self.at += 2;
                self.count_operator()?;
                containment = true;
            } else if self.peek() == "in" {
                self.at += 1;
                self.count_operator()?;
                containment = true;
            } else if !self.take(&["==", "!=", "<", "<=", ">", ">="])? {
                break;
            }
            let next = self.operand()?;
            bounded |= next.2 && !containment;
            operands.push(next);
        }
        if operands.len() == 1 || (operands.len() == 2 && bounded) {
            return Ok(());
        }
        let here = self.at;
        for (i, (first, end, literal)) in operands.iter().enumerate() {
            if *literal || (containment && operands.len() == 2 && i == 1) {
                continue;
            }
            self.at = *end;
            self.wrap(
                *first,
                if containment {
                    "ondol_weigh_in"
                } else {
                    "ondol_weigh"
                },
            );
        }
        self.at = here;
        Ok(())
    }

    /// An operand of a comparison: its tokens, and whether it is a lone literal.
    fn operand(&mut self) -> Result<(usize, usize, bool), Failure> {
        let first = self.at;
        let literal = self.tokens.get(first).is_some_and(|t| {
            t.kind == Kind::Literal
                || matches!(
                    t.text,
                    "true" | "false" | "none" | "True" | "False" | "None"
                )
        });
        self.sum()?;
        Ok((first, self.at, literal && self.at == first + 1))
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
            self.malformed |= self.at == first;
            self.replace_operator(",");
            self.count_operator()?;
            tildes += 1;
            let operand = self.at;
            self.product()?;
            self.malformed |= self.at == operand;
        }
        if tildes > 0 {
            self.wrap(first, "ondol_concat");
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), Failure> {
        let first = self.at;
        self.power()?;
        loop {
            if self.peek() == "%" && !self.is_literal() {
                // Everything before it in the chain is its left side.
                self.malformed |= self.at == first;
                self.replace_operator(",");
                self.count_operator()?;
                let operand = self.at;
                self.power()?;
                self.malformed |= self.at == operand;
                self.wrap(first, "ondol_mod");
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
                    let breaks = self.source[dot.start..name.end()].matches('\n').count();
                    self.open(self.tokens[first].start, name.end(), "ondol_member(".into());
                    self.replace(
                        dot.start,
                        name.end() - dot.start,
                        format!(", '{}'){}", name.text, "\n".repeat(breaks)),
                    );
                    self.malformed |= dot.start == self.tokens[first].start;
                    self.at += 2;
                    self.count_operator()?;
                }
                "." | "|" => {
                    self.at += 2;
                    self.count_operator()?;
                }
                "(" | "[" => {
                    self.count_operator()?;
                    self.bracket(self.peek() == "[")?;
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
                    self.bracket(self.peek() == "[")?;
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
            (Kind::Operator, "(" | "[" | "{") => self.bracket(false)?,
            _ => {}
        }
        Ok(())
    }

    /// Everything up to the closing bracket. The lexer has bounded the depth. Keys of dicts and subscripts that are no
    /// literals are checked: looking them up hashes them whole.
    fn bracket(&mut self, subscript: bool) -> Result<(), Failure> {
        let dict = self.peek() == "{";
        let mut pieces = 0;
        self.at += 1;
        while self.at < self.tokens.len() {
            if !self.is_literal() && matches!(self.peek(), ")" | "]" | "}") {
                self.at += 1;
                break;
            }
            let before = self.at;
            self.condition()?;
            pieces += 1;
            if self.at == before {
                self.at += 1;
                continue;
            }
            let literal = self.at == before + 1 && self.tokens[before].kind == Kind::Literal;
            let key =
                (dict && self.peek() == ":") || (subscript && pieces == 1 && self.peek() == "]");
            if key && !literal {
                self.wrap(before, "ondol_key");
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
            "{{ ondol_concat('a' , b) + ondol_concat('c' , d[ondol_key(ondol_concat(1 , 2))] * 2) if ondol_concat(x , '~') is in 'y' else z }}"
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
    fn weighs_what_is_compared() {
        for (source, wanted) in [
            (
                "{{ a == 'x' and b ~ c == d }}",
                "{{ a == 'x' and ondol_weigh(ondol_concat(b , c)) == ondol_weigh(d) }}",
            ),
            ("{{ a not in b }}", "{{ ondol_weigh_in(a) not in b }}"),
            (
                "{{ {a: b[c], 'd': e[1:]}.items }}",
                "{{ ondol_member({ondol_key(a): b[ondol_key(c)], 'd': e[1:]}, 'items') }}",
            ),
            ("{{ a ~ }}", "{{ a ~ }}"),
        ] {
            assert_eq!(rewrite(source).unwrap(), wanted);
        }
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
