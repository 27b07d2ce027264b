//! `tojson` as Hugging Face sets it up: Python's `json.dumps(value, ensure_ascii, indent, separators, sort_keys)`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::python::{as_float, float_repr, plain_str, MAX_DEPTH};

struct Style {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
}

fn argument(kwargs: &Kwargs, positional: Option<&Value>, name: &str) -> Option<Value> {
    let named = kwargs.get::<Option<Value>>(name).ok().flatten();
    named
        .or_else(|| positional.cloned())
        .filter(|v| !v.is_undefined() && !v.is_none())
}

fn style(args: &[Value], kwargs: &Kwargs) -> Result<Style, Error> {
    let ascii = argument(kwargs, args.first(), "ensure_ascii").is_some_and(|v| v.is_true());
    let indent = match argument(kwargs, args.get(1), "indent") {
        Some(v) if v.kind() == ValueKind::String => Some(v.to_string()),
        Some(v) => {
            let n = i64::try_from(v)?.clamp(0, 1000) as usize;
            Some(" ".repeat(n))
        }
        None => None,
    };
    let (item, key) = match argument(kwargs, args.get(2), "separators") {
        Some(pair) => (
            pair.get_item_by_index(0)?.to_string(),
            pair.get_item_by_index(1)?.to_string(),
        ),
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let sort = argument(kwargs, args.get(3), "sort_keys").is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    Ok(Style {
        ascii,
        indent,
        item,
        key,
        sort,
    })
}

/// The `tojson` filter.
pub fn tojson(
    state: &State,
    value: &Value,
    args: minijinja::value::Rest<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let style = style(&args, &kwargs)?;
    let mut writer = Writer {
        out: String::new(),
        state,
        style: &style,
    };
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

struct Writer<'a> {
    out: String,
    state: &'a State<'a, 'a>,
    style: &'a Style,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.state.consume_fuel(1)?;
        crate::limits::check_text(self.state, self.out.len())?;
        if depth > MAX_DEPTH + 50 {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "limit: the value is nested too deeply for tojson",
            ));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => match as_float(value) {
                Some(x) => self.out.push_str(&json_float(x)),
                None => self.out.push_str(&value.to_string()),
            },
            ValueKind::String => write_string(
                &mut self.out,
                value.as_str().unwrap_or_default(),
                self.style.ascii,
            ),
            ValueKind::Seq if !crate::objects::is_view(value) => self.sequence(value, depth)?,
            ValueKind::Map if !crate::objects::is_namespace(value) => self.mapping(value, depth)?,
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("an object of type {kind} is not JSON serializable"),
                ))
            }
        }
        Ok(())
    }

    fn line_break(&mut self, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            crate::limits::check_text(self.state, self.out.len() + depth * indent.len())?;
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
        Ok(())
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.out.push('[');
        let mut empty = true;
        for item in value.try_iter()?.checked() {
            if !empty {
                self.out.push_str(&self.style.item);
            }
            empty = false;
            self.line_break(depth + 1)?;
            self.value(&item?, depth + 1)?;
        }
        if !empty {
            self.line_break(depth)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn mapping(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        for key in value.try_iter()? {
            let item = value.get_item(&key)?;
            pairs.push((key_text(&key)?, item));
        }
        if self.style.sort {
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.out.push('{');
        let empty = pairs.is_empty();
        for (i, (key, item)) in pairs.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(&self.style.item);
            }
            self.line_break(depth + 1)?;
            write_string(&mut self.out, &key, self.style.ascii);
            self.out.push_str(&self.style.key);
            self.value(&item, depth + 1)?;
        }
        if !empty {
            self.line_break(depth)?;
        }
        self.out.push('}');
        Ok(())
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    if let Some(text) = plain_str(key) {
        return Ok(text.to_owned());
    }
    match key.kind() {
        ValueKind::None => Ok("null".into()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number => Ok(match as_float(key) {
            Some(x) => json_float(x),
            None => key.to_string(),
        }),
        kind => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a key of type {kind} is not JSON serializable"),
        )),
    }
}

fn json_float(x: f64) -> String {
    if x.is_nan() {
        "NaN".into()
    } else if x.is_infinite() {
        if x < 0.0 { "-Infinity" } else { "Infinity" }.into()
    } else {
        float_repr(x)
    }
}

/// Appends a JSON string; `ascii` escapes everything above U+007E as UTF-16 code units.
pub fn write_string(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if ascii && (c as u32) > 0x7e => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
