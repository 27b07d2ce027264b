//! The methods of Python's `str`, `dict`, `list` and `tuple` that a template may call. Methods that change their object
//! do not exist, as in Jinja's immutable sandbox.

use minijinja::value::{from_args, Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::limits::{charge, limit, MAX_TEXT};
use crate::objects::{View, ViewKind};
use crate::python;

/// Python's `str.isspace` for one character.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Called where minijinja itself has no such method.
pub fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            string(state, text, name, args)?
        }
        ValueKind::Map if !crate::objects::is_namespace(value) => {
            if name == "get" {
                if let Some(key) = args.first() {
                    crate::filters::check_key(state, key)?;
                }
            }
            mapping(value, name, args)?
        }
        ValueKind::Map => return Err(Error::from(ErrorKind::UnknownMethod)),
        ValueKind::Seq => {
            if let Some(what) = args.first() {
                crate::filters::weigh(state, value, 1)?;
                crate::filters::weigh(state, what, 1)?;
            }
            sequence(value, name, args)?
        }
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

fn mapping(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let kind = match name {
        "keys" => ViewKind::Keys,
        "values" => ViewKind::Values,
        "items" => ViewKind::Items,
        "copy" => {
            let () = from_args(args)?;
            return Ok(Some(value.clone()));
        }
        _ => return Ok(None),
    };
    let () = from_args(args)?;
    Ok(Some(View::of(value, kind)))
}

fn sequence(value: &Value, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match name {
        "index" => {
            let (what,): (Value,) = from_args(args)?;
            for (i, item) in value.try_iter()?.checked().enumerate() {
                if item? == what {
                    return Ok(Some(Value::from(i)));
                }
            }
            Err(invalid("the value is not in the list"))
        }
        "copy" if !value.is_tuple() => {
            let () = from_args(args)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

fn string(state: &State, text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    if let Some(result) = strip(text, name, args)? {
        return Ok(Some(result));
    }
    state.consume_fuel(text.len() as u64 / 64)?;
    if let Some(result) = search(text, name, args)? {
        return Ok(Some(result));
    }
    if let Some(result) = classify(text, name, args)? {
        return Ok(Some(result));
    }
    Ok(Some(match name {
        "split" | "rsplit" => split(state, text, name == "rsplit", args)?,
        "splitlines" => {
            let (keep,): (Option<bool>,) = from_args(args)?;
            split_lines(text, keep.unwrap_or(false))
        }
        "partition" | "rpartition" => partition(text, name == "rpartition", args)?,
        "center" | "ljust" | "rjust" => {
            let (width, fill): (i64, Option<Value>) = from_args(args)?;
            let fill = fill.map_or(Ok(' '), |f| one_char(&f))?;
            Value::from(pad(state, text, width, fill, name)?)
        }
        "zfill" => {
            let (width,): (i64,) = from_args(args)?;
            let (sign, digits) = match text.chars().next() {
                Some(c @ ('+' | '-')) => (c.to_string(), &text[1..]),
                _ => (String::new(), text),
            };
            let width = width.saturating_sub(sign.len() as i64);
            Value::from(sign + &pad(state, digits, width, '0', "rjust")?)
        }
        "capitalize" | "title" | "swapcase" | "casefold" => {
            let () = from_args(args)?;
            Value::from(change_case(text, name))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "join" => {
            let (values,): (Value,) = from_args(args)?;
            join_strings(state, text, &values)?
        }
        "replace" => replace(state, text, args)?,
        "format" => {
            crate::limits::check_format(state, text, args)?;
            return Ok(None);
        }
        _ => return Ok(None),
    }))
}

fn one_char(fill: &Value) -> Result<char, Error> {
    let mut chars = fill.as_str().unwrap_or_default().chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => Err(invalid(
            "the fill character must be exactly one character long",
        )),
    }
}

/// `center`, `ljust` or `rjust`.
pub fn pad(state: &State, text: &str, width: i64, fill: char, how: &str) -> Result<String, Error> {
    let length = text.chars().count() as i64;
    let missing = width.saturating_sub(length).max(0);
    if missing > MAX_TEXT as i64 {
        return Err(limit("the template pads a text too far"));
    }
    charge(state, text.len() + missing as usize * fill.len_utf8())?;
    let left = match how {
        "ljust" => 0,
        "rjust" => missing,
        // Python puts the odd blank to the left where the width is odd.
        _ => missing / 2 + (missing & width & 1),
    };
    let run = |n: i64| std::iter::repeat_n(fill, n as usize).collect::<String>();
    Ok(run(left) + text + &run(missing - left))
}

fn strip(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let (start, end) = match name {
        "strip" => (true, true),
        "lstrip" => (true, false),
        "rstrip" => (false, true),
        _ => return Ok(None),
    };
    let (chars,): (Option<Value>,) = from_args(args)?;
    let set: Option<Vec<char>> = match chars.filter(|c| !c.is_none()) {
        None => None,
        Some(c) => match python::plain_str(&c) {
            Some(set) => Some(set.chars().collect()),
            None => return Err(invalid("strip arg must be None or str")),
        },
    };
    Ok(Some(Value::from(strip_text(
        text,
        set.as_deref(),
        start,
        end,
    ))))
}

/// Strips white space, or the characters in `set`, at the chosen ends.
pub fn strip_text<'a>(text: &'a str, set: Option<&[char]>, start: bool, end: bool) -> &'a str {
    let matches = |c: char| set.map_or_else(|| is_space(c), |set| set.contains(&c));
    let mut out = text;
    if start {
        out = out.trim_start_matches(matches);
    }
    if end {
        out = out.trim_end_matches(matches);
    }
    out
}

/// `find` and its like, in characters, with Python's optional start and end.
fn search(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let backwards = matches!(name, "rfind" | "rindex");
    if !matches!(name, "find" | "rfind" | "index" | "rindex" | "count") {
        return Ok(None);
    }
    let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let (first, part) = window(text, start, end);
    if name == "count" {
        let n = match (what.is_empty(), part) {
            (_, None) => 0,
            (true, Some(part)) => part.chars().count() + 1,
            (false, Some(part)) => part.matches(what).count(),
        };
        return Ok(Some(Value::from(n)));
    }
    let found = part.and_then(|part| {
        let at = if backwards {
            part.rfind(what)
        } else {
            part.find(what)
        };
        at.map(|at| first + part[..at].chars().count())
    });
    match found {
        Some(at) => Ok(Some(Value::from(at))),
        None if name.ends_with("index") => Err(invalid("substring not found")),
        None => Ok(Some(Value::from(-1))),
    }
}

/// The part of `text` between two Python indices and the index of its first character; None where start > end.
fn window(text: &str, start: Option<i64>, end: Option<i64>) -> (usize, Option<&str>) {
    if start.is_none() && end.is_none() {
        return (0, Some(text));
    }
    let length = text.chars().count() as i64;
    let clamp = |i: i64| if i < 0 { (i + length).max(0) } else { i };
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(length)).min(length);
    if start > end {
        return (0, None);
    }
    let mut offsets = text.char_indices().map(|(i, _)| i).chain([text.len()]);
    let from = offsets.clone().nth(start as usize).unwrap_or(text.len());
    let to = offsets.nth(end as usize).unwrap_or(text.len());
    (start as usize, Some(&text[from..to]))
}

fn classify(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let all = |test: &dyn Fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    let result = match name {
        "isspace" => all(&is_space),
        "isdecimal" => all(&|c| c.is_ascii_digit()),
        "isprintable" => text
            .chars()
            .all(|c| !c.is_control() && (c == ' ' || !is_space(c))),
        "isidentifier" => {
            let mut chars = text.chars();
            chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
                && chars.all(|c| c == '_' || c.is_alphanumeric())
        }
        "istitle" => text.chars().any(char::is_alphabetic) && change_case(text, "title") == text,
        "startswith" | "endswith" => {
            let (what, start, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
            let (_, part) = window(text, start, end);
            return affix(part, name == "startswith", &what).map(Some);
        }
        _ => return Ok(None),
    };
    let () = from_args(args)?;
    Ok(Some(Value::from(result)))
}

fn affix(part: Option<&str>, start: bool, what: &Value) -> Result<Value, Error> {
    let test = |affix: &Value| match python::plain_str(affix) {
        Some(affix) => Ok(part.is_some_and(|part| {
            if start {
                part.starts_with(affix)
            } else {
                part.ends_with(affix)
            }
        })),
        None => Err(invalid(
            "startswith and endswith take a string or a tuple of strings",
        )),
    };
    if what.is_tuple() {
        for item in what.try_iter()? {
            if test(&item)? {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    test(what).map(Value::from)
}

fn change_case(text: &str, how: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (i, c) in text.chars().enumerate() {
        let upper = match how {
            "capitalize" => i == 0,
            "title" => !inside,
            "swapcase" => c.is_lowercase(),
            _ => false,
        };
        inside = c.is_alphabetic();
        if upper {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out
}

fn split(state: &State, text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], Kwargs) = from_args(args)?;
    let pick = |i: usize, name: &str| -> Result<Option<Value>, Error> {
        let named = kwargs.get::<Option<Value>>(name)?;
        Ok(named.or_else(|| positional.get(i).cloned()))
    };
    let separator = pick(0, "sep")?.filter(|s| !s.is_none());
    let most = match pick(1, "maxsplit")? {
        Some(n) => i64::try_from(n)?,
        None => -1,
    };
    kwargs.assert_all_used()?;
    let most = usize::try_from(most).unwrap_or(usize::MAX - 1);
    let parts: Vec<&str> = match &separator {
        None => split_space(text, most, from_right),
        Some(separator) => {
            let separator = python::plain_str(separator)
                .ok_or_else(|| invalid("the separator must be a string"))?;
            if separator.is_empty() {
                return Err(invalid("empty separator"));
            }
            if from_right {
                let mut parts: Vec<&str> = text.rsplitn(most + 1, separator).collect();
                parts.reverse();
                parts
            } else {
                text.splitn(most + 1, separator).collect()
            }
        }
    };
    charge(state, parts.len() * 32)?;
    Ok(Value::from(
        parts.into_iter().map(Value::from).collect::<Vec<_>>(),
    ))
}

fn split_space(text: &str, most: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        if from_right {
            let cut = rest.rfind(is_space).map_or(0, |i| {
                i + rest[i..].chars().next().map_or(1, char::len_utf8)
            });
            parts.push(&rest[cut..]);
            rest = rest[..cut].trim_end_matches(is_space);
        } else {
            let cut = rest.find(is_space).unwrap_or(rest.len());
            parts.push(&rest[..cut]);
            rest = rest[cut..].trim_start_matches(is_space);
        }
    }
    if from_right {
        parts.reverse();
    } else if let Some(last) = parts.last_mut() {
        // With a limit, Python keeps the white space inside the rest but not at the end of the text.
        *last = last.trim_end_matches(is_space);
    }
    parts
}

fn split_lines(text: &str, keep: bool) -> Value {
    let is_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(is_break).unwrap_or(rest.len());
        let after = match rest[at..].chars().next() {
            Some('\r') if rest[at..].starts_with("\r\n") => at + 2,
            Some(c) => at + c.len_utf8(),
            None => at,
        };
        lines.push(Value::from(&rest[..if keep { after } else { at }]));
        rest = &rest[after..];
    }
    Value::from(lines)
}

fn partition(text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    if separator.is_empty() {
        return Err(invalid("empty separator"));
    }
    let found = if from_right {
        text.rfind(separator)
    } else {
        text.find(separator)
    };
    let parts = match found {
        Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
        None if from_right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn join_strings(state: &State, separator: &str, values: &Value) -> Result<Value, Error> {
    let mut out = String::new();
    for (i, item) in values.try_iter()?.checked().enumerate() {
        let item = item?;
        let Some(text) = python::plain_str(&item) else {
            return Err(invalid(format!(
                "sequence item {i}: expected str instance, {} found",
                item.kind()
            )));
        };
        charge(state, text.len() + separator.len())?;
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::from(out))
}

fn replace(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
    let most = usize::try_from(count.unwrap_or(-1)).unwrap_or(usize::MAX);
    replace_text(state, text, old, new, most).map(Value::from)
}

/// Replaces at most `most` places, from the left; an empty `old` stands between all characters.
pub fn replace_text(
    state: &State,
    text: &str,
    old: &str,
    new: &str,
    most: usize,
) -> Result<String, Error> {
    let places = text.matches(old).count().min(most);
    let size = text.len().saturating_add(places.saturating_mul(new.len()));
    charge(state, size)?;
    Ok(text.replacen(old, new, most))
}
