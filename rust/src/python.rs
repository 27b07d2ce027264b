//! How Python writes values: `str()` and `repr()`.
//!
//! Templates print values with `{{ x }}` or join them to strings, and several published ones rely on `True`, `None` or
//! `['a', 1.0]` in the output, so the text has to be Python's to the letter.

use minijinja::value::{ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// How deep a value may be nested and still be printed, compared or stored.
pub const MAX_DEPTH: usize = 100;

/// Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let mut plain = x.to_string();
    if !plain.contains('.') {
        plain.push_str(".0");
    }
    plain
}

/// True where the value is a float (also 1.0), which minijinja's own kinds do not tell.
pub fn as_float(value: &Value) -> Option<f64> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        f64::try_from(value.clone()).ok()
    } else {
        None
    }
}

/// Appends `str(value)`; an undefined value gives nothing. The work is paid for by the item.
pub fn write_str(state: &State, out: &mut String, value: &Value) -> Result<(), Error> {
    if let Some(text) = plain_str(value) {
        out.push_str(text);
        return Ok(());
    }
    if value.is_undefined() {
        return Ok(());
    }
    write_repr(
        &mut Printer {
            out,
            state: Some(state),
        },
        value,
        0,
    )
}

/// `str(value)`.
pub fn to_str(state: &State, value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(state, &mut out, value)?;
    Ok(out)
}

/// `str(value)` of a value that is known to be small.
pub fn to_str_unpaid(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(
        &mut Printer {
            out: &mut out,
            state: None,
        },
        value,
        0,
    )?;
    Ok(out)
}

struct Printer<'a> {
    out: &'a mut String,
    state: Option<&'a State<'a, 'a>>,
}

impl Printer<'_> {
    fn pay(&self) -> Result<(), Error> {
        match self.state {
            Some(state) => {
                crate::limits::check_text(state, self.out.len())?;
                state.consume_fuel(1)
            }
            None => Ok(()),
        }
    }
}

/// The text of a string value, but not of bytes.
pub fn plain_str(value: &Value) -> Option<&str> {
    (value.kind() == ValueKind::String)
        .then(|| value.as_str())
        .flatten()
}

fn too_deep() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "limit: the value is nested too deeply",
    )
}

fn write_repr(p: &mut Printer<'_>, value: &Value, depth: usize) -> Result<(), Error> {
    p.pay()?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::Undefined => p.out.push_str("Undefined"),
        ValueKind::None => p.out.push_str("None"),
        ValueKind::Bool => p
            .out
            .push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => match as_float(value) {
            Some(x) => p.out.push_str(&float_repr(x)),
            None => p.out.push_str(&value.to_string()),
        },
        ValueKind::String => write_quoted(p.out, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => write_sequence(p, value, depth)?,
        ValueKind::Map => write_mapping(p, value, depth)?,
        _ => p.out.push_str(&value.to_string()),
    }
    Ok(())
}

fn write_sequence(p: &mut Printer<'_>, value: &Value, depth: usize) -> Result<(), Error> {
    let tuple = value.is_tuple();
    let prefix = crate::objects::view_prefix(value);
    if let Some(prefix) = prefix {
        p.out.push_str(prefix);
    }
    p.out.push(if tuple { '(' } else { '[' });
    let mut count = 0usize;
    for item in value.try_iter()?.checked() {
        if count > 0 {
            p.out.push_str(", ");
        }
        write_repr(p, &item?, depth + 1)?;
        count += 1;
    }
    if tuple && count == 1 {
        p.out.push(',');
    }
    p.out.push(if tuple { ')' } else { ']' });
    if prefix.is_some() {
        p.out.push(')');
    }
    Ok(())
}

fn write_mapping(p: &mut Printer<'_>, value: &Value, depth: usize) -> Result<(), Error> {
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    let namespace = crate::objects::is_namespace(value);
    p.out.push_str(if namespace { "<Namespace {" } else { "{" });
    if object.repr() == ObjectRepr::Map {
        for (i, (key, item)) in object.try_iter_pairs().into_iter().flatten().enumerate() {
            if i > 0 {
                p.out.push_str(", ");
            }
            write_repr(p, &key, depth + 1)?;
            p.out.push_str(": ");
            write_repr(p, &item, depth + 1)?;
        }
    }
    p.out.push_str(if namespace { "}>" } else { "}" });
    Ok(())
}

/// Python's `repr` of a string.
pub fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

/// Near enough to Python's `str.isprintable`: everything but controls, separators other than the space, format
/// characters, private use and non-characters.
fn is_printable(c: char) -> bool {
    if c == ' ' {
        return true;
    }
    let code = c as u32;
    let format = matches!(code, 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x8e2 | 0x180e | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0x110bd | 0x1d173..=0x1d17a
        | 0xe0001 | 0xe0020..=0xe007f);
    let private = matches!(code, 0xe000..=0xf8ff | 0xf0000..=0x10ffff) || code & 0xfffe == 0xfffe;
    !(c.is_control() || c.is_whitespace() || format || private)
}
