//! Filters, tests and functions where Jinja2's behaviour differs from minijinja's.

use minijinja::formatting::{format, FormatStyle};
use minijinja::value::{from_args, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use minijinja::tests::is_sameas;

use crate::limits::{charge, limit, MAX_RANGE, MAX_TEXT};
use crate::methods::{is_space, pad, replace_text, strip_text};
use crate::python::{self, as_float, plain_str, to_str};

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Puts everything of this module into the environment.
pub fn install(env: &mut Environment<'static>) {
    env.add_filter("tojson", crate::json::tojson);
    env.add_filter("string", |state: &State, v: &Value| {
        to_str_charged(state, v)
    });
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("trim", trim);
    env.add_filter("center", center);
    env.add_filter("indent", indent);
    env.add_filter("wordcount", wordcount);
    env.add_filter("truncate", truncate);
    env.add_filter("striptags", striptags);
    env.add_filter("attr", attr);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("escape", escape);
    env.add_filter("e", escape);
    env.add_filter("forceescape", escape);
    env.add_filter(
        "capitalize",
        |state: &State, v: &Value| -> Result<String, Error> {
            let text = to_str(state, v)?;
            let mut chars = text.chars();
            let first: String = chars
                .next()
                .into_iter()
                .flat_map(char::to_uppercase)
                .collect();
            Ok(first + &chars.as_str().to_lowercase())
        },
    );
    env.add_filter("random", || -> Result<Value, Error> {
        Err(invalid(
            "random is not available: a prompt must be reproducible",
        ))
    });
    install_tests(env);
    env.add_function("range", range);
    env.add_function(
        "raise_exception",
        |state: &State, message: &Value| -> Result<Value, Error> {
            Err(invalid(to_str(state, message)?).with_source(crate::Raised))
        },
    );
    env.add_function("cycler", minijinja_contrib::globals::cycler);
    env.add_function("joiner", minijinja_contrib::globals::joiner);
    env.remove_global("debug");
    env.add_function("ondol_concat", concat);
    env.add_function("ondol_store", store);
    env.add_function("ondol_mod", modulo);
    env.add_function("ondol_weigh", |state: &State, value: Value| {
        weigh(state, &value, 1).map(|()| value)
    });
    env.add_function("ondol_weigh_in", |state: &State, value: Value| {
        weigh(state, &value, 1000).map(|()| value)
    });
    env.add_function("ondol_key", |state: &State, value: Value| {
        check_key(state, &value).map(|()| value)
    });
    install_orderings(env);
    env.add_function("ondol_member", crate::objects::member);
    env.add_function("ondol_iter", |value: Value| -> Result<Value, Error> {
        if value.is_none() {
            return Err(invalid("'NoneType' object is not iterable"));
        }
        Ok(value)
    });
    env.add_filter("format", format_filter);
}

fn install_tests(env: &mut Environment<'static>) {
    env.add_test("number", |v: &Value| {
        v.is_number() || v.kind() == ValueKind::Bool
    });
    env.add_test("sequence", |v: &Value| match v.kind() {
        ValueKind::Iterable => !crate::objects::is_view(v) && v.len().is_some(),
        kind => matches!(
            kind,
            ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined
        ),
    });
    env.add_test("iterable", |v: &Value| {
        matches!(
            v.kind(),
            ValueKind::String
                | ValueKind::Seq
                | ValueKind::Map
                | ValueKind::Iterable
                | ValueKind::Undefined
        )
    });
    env.add_test("mapping", |v: &Value| {
        v.kind() == ValueKind::Map && !crate::objects::is_namespace(v)
    });
    env.add_test("callable", |v: &Value| v.kind() == ValueKind::Plain);
    env.add_test("true", |v: &Value| {
        v.kind() == ValueKind::Bool && v.is_true()
    });
    env.add_test("false", |v: &Value| {
        v.kind() == ValueKind::Bool && !v.is_true()
    });
}

fn to_str_charged(state: &State, value: &Value) -> Result<Value, Error> {
    let text = to_str(state, value)?;
    charge(state, text.len() * 4)?;
    Ok(Value::from(text))
}

/// `a ~ b ~ …`: the source pre-pass writes it as a call of this.
fn concat(state: &State, parts: Rest<Value>) -> Result<Value, Error> {
    let known: usize = parts
        .iter()
        .filter_map(|p| plain_str(p))
        .map(str::len)
        .sum();
    charge(state, known)?;
    let mut out = String::with_capacity(known);
    for part in parts.iter() {
        python::write_str(state, &mut out, part)?;
        crate::limits::check_text(state, out.len())?;
    }
    Ok(Value::from(out))
}

/// Pays for walking a value once, `factor` times as much where it is a container.
pub fn weigh(state: &State, value: &Value, factor: u64) -> Result<(), Error> {
    fn walk(state: &State, value: &Value, factor: u64, depth: usize) -> Result<(), Error> {
        if let Some(text) = plain_str(value) {
            return state.consume_fuel(text.len() as u64 / 1024);
        }
        let Some(object) = value.as_object() else {
            return Ok(());
        };
        if depth > 2 * python::MAX_DEPTH {
            return Err(limit("a value is nested too deeply"));
        }
        if object.enumerator_len().is_none() || value.kind() == ValueKind::Plain {
            return Ok(());
        }
        if value.kind() == ValueKind::Map {
            for (_, item) in object.try_iter_pairs().into_iter().flatten() {
                state.consume_fuel(factor)?;
                walk(state, &item, factor, depth + 1)?;
            }
            return Ok(());
        }
        for item in value.try_iter()?.checked() {
            state.consume_fuel(factor)?;
            walk(state, &item?, factor, depth + 1)?;
        }
        Ok(())
    }
    walk(state, value, factor, 0)
}

/// Refuses what Python cannot look up in a dict.
pub fn check_key(state: &State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Seq if value.is_tuple() => weigh(state, value, 1),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            Err(invalid(format!("unhashable type: {}", value.kind())))
        }
        _ => Ok(()),
    }
}

/// Comparisons by test and by filter, weighed.
fn install_orderings(env: &mut Environment<'static>) {
    type Compare = fn(&Value, &Value) -> bool;
    let tests: [(&[&'static str], Compare); 6] = [
        (&["eq", "equalto", "=="], |a, b| a == b),
        (&["ne", "!="], |a, b| a != b),
        (&["lt", "lessthan", "<"], |a, b| a < b),
        (&["le", "<="], |a, b| a <= b),
        (&["gt", "greaterthan", ">"], |a, b| a > b),
        (&["ge", ">="], |a, b| a >= b),
    ];
    for (names, compare) in tests {
        for name in names {
            let test = move |state: &State, a: &Value, b: &Value| -> Result<bool, Error> {
                if a.as_object().is_some() == b.as_object().is_some() {
                    weigh(state, a, 1)?;
                    weigh(state, b, 1)?;
                }
                Ok(compare(a, b))
            };
            env.add_test(*name, test);
        }
    }
    env.add_test(
        "in",
        |state: &State, a: &Value, b: &Value| -> Result<bool, Error> {
            weigh(state, a, 1000)?;
            minijinja::tests::is_in(state, a, b)
        },
    );
    use minijinja::filters;
    for (name, inner) in [
        ("sort", Value::from_function(filters::sort)),
        ("unique", Value::from_function(filters::unique)),
        ("min", Value::from_function(filters::min)),
        ("max", Value::from_function(filters::max)),
        ("groupby", Value::from_function(filters::groupby)),
        ("dictsort", Value::from_function(filters::dictsort)),
    ] {
        let filter = move |state: &mut State, value: &Value, args: Rest<ValueOrKwargs>| {
            let length = value.len().unwrap_or(0) as u64;
            weigh(state, value, 1 + u64::from(length.max(1).ilog2()))?;
            let mut all = vec![value.clone()];
            all.extend(args.into_values());
            inner.call(state, &all)
        };
        env.add_filter(name, filter);
    }
}

/// `a % b`: the source pre-pass writes it as a call of this.
fn modulo(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(pattern) = plain_str(a) {
        let args: Vec<Value> = if b.is_tuple() {
            b.try_iter()?.collect()
        } else {
            vec![b.clone()]
        };
        return percent_format(state, pattern, &args);
    }
    let whole = |v: &Value| {
        if v.kind() == ValueKind::Bool {
            return Some(i128::from(v.is_true()));
        }
        v.is_integer()
            .then(|| i128::try_from(v.clone()).ok())
            .flatten()
    };
    if let (Some(x), Some(y)) = (whole(a), whole(b)) {
        let rest = x
            .checked_rem(y)
            .ok_or_else(|| invalid("integer modulo by zero"))?;
        let rest = if rest != 0 && (rest < 0) != (y < 0) {
            rest + y
        } else {
            rest
        };
        return Ok(i64::try_from(rest).map_or_else(|_| Value::from(rest), Value::from));
    }
    let number = |v: &Value| as_float(v).or_else(|| whole(v).map(|x| x as f64));
    match (number(a), number(b)) {
        (Some(_), Some(0.0)) => Err(invalid("float modulo by zero")),
        (Some(x), Some(y)) => {
            let rest = x % y;
            Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (y < 0.0) {
                rest + y
            } else {
                rest
            }))
        }
        _ => Err(invalid(format!(
            "unsupported operand types for %: {} and {}",
            a.kind(),
            b.kind()
        ))),
    }
}

fn format_filter(
    state: &State,
    pattern: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    percent_format(state, &to_str(state, pattern)?, &args.into_values())
}

fn percent_format(state: &State, pattern: &str, args: &[Value]) -> Result<Value, Error> {
    let args: Vec<Value> = args
        .iter()
        .map(|v| printable(state, v))
        .collect::<Result<_, _>>()?;
    crate::limits::check_format(state, pattern, &args)?;
    format(FormatStyle::Printf, pattern, &args).map(Value::from)
}

/// Containers and floats as Python prints them; the formatter would use Rust's forms.
fn printable(state: &State, value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => to_str(state, value).map(Value::from),
        _ => Ok(value.clone()),
    }
}

/// The value of `{% set ns.x = value %}`. Keeps namespaces free of cycles and of endless nesting, which nothing that
/// walks values later would survive.
fn store(state: &State, namespace: &Value, value: Value) -> Result<Value, Error> {
    fn walk(state: &State, namespace: &Value, value: &Value, depth: usize) -> Result<(), Error> {
        let Some(object) = value.as_object() else {
            return Ok(());
        };
        if depth > python::MAX_DEPTH / 2 {
            return Err(limit("a namespace holds values that are nested too deeply"));
        }
        if crate::objects::is_namespace(value) && is_sameas(namespace, value) {
            return Err(limit("a namespace cannot hold itself"));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable if object.enumerator_len().is_some() => {
                for item in value.try_iter()?.checked() {
                    state.consume_fuel(2)?;
                    walk(state, namespace, &item?, depth + 1)?;
                }
            }
            ValueKind::Map => {
                for (_, item) in object.try_iter_pairs().into_iter().flatten() {
                    state.consume_fuel(2)?;
                    walk(state, namespace, &item, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    walk(state, namespace, &value, 0)?;
    if value.kind() == ValueKind::Seq && !value.is_tuple() {
        // Sums of lists are lazy; kept as they are, a loop of `ns.a = ns.a + [x]` would nest ever deeper.
        let items: Vec<Value> = value.try_iter()?.collect();
        charge(state, items.len() * 32)?;
        return Ok(Value::from(items));
    }
    Ok(value)
}

fn join(
    state: &State,
    value: &Value,
    separator: Option<Value>,
    attribute: Option<Value>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let separator = match separator {
        Some(s) => to_str(state, &s)?,
        None => match kwargs.get::<Option<Value>>("d")? {
            Some(s) => to_str(state, &s)?,
            None => String::new(),
        },
    };
    let attribute = match attribute {
        Some(a) => Some(a),
        None => kwargs.get::<Option<Value>>("attribute")?,
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    for (i, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(attribute) = &attribute {
            item = match attribute.as_str() {
                Some(path) => {
                    path.split('.')
                        .try_fold(item, |item, part| match part.parse::<usize>() {
                            Ok(index) => item.get_item_by_index(index),
                            Err(_) => item.get_item(&Value::from(part)),
                        })?
                }
                None => item.get_item(attribute)?,
            };
        }
        let before = out.len();
        if i > 0 {
            charge(state, separator.len())?;
            out.push_str(&separator);
        }
        python::write_str(state, &mut out, &item)?;
        crate::limits::check_text(state, out.len())?;
        state.consume_fuel(1 + (out.len() - before) as u64 / 64)?;
    }
    Ok(Value::from(out))
}

fn replace(
    state: &State,
    value: &Value,
    old: &Value,
    new: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let args = args.into_values();
    let (count, kwargs): (Option<Value>, Kwargs) = from_args(&args)?;
    let count = match count {
        Some(c) => Some(c),
        None => kwargs.get::<Option<Value>>("count")?,
    };
    kwargs.assert_all_used()?;
    let most = match count.filter(|c| !c.is_none()) {
        Some(c) => usize::try_from(i64::try_from(c)?).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let text = replace_text(
        state,
        &to_str(state, value)?,
        &to_str(state, old)?,
        &to_str(state, new)?,
        most,
    )?;
    Ok(Value::from(text))
}

fn trim(state: &State, value: &Value, chars: Option<Value>) -> Result<String, Error> {
    let set: Option<Vec<char>> = match chars.filter(|c| !c.is_none()) {
        Some(c) => Some(to_str(state, &c)?.chars().collect()),
        None => None,
    };
    Ok(strip_text(&to_str(state, value)?, set.as_deref(), true, true).to_owned())
}

fn center(state: &State, value: &Value, width: Option<i64>) -> Result<String, Error> {
    pad(
        state,
        &to_str(state, value)?,
        width.unwrap_or(80),
        ' ',
        "center",
    )
}

fn indent(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (width, first, blank, kwargs): (Option<Value>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&args)?;
    let width = match width {
        Some(w) => Some(w),
        None => kwargs.get::<Option<Value>>("width")?,
    };
    let flag = |given: Option<bool>, name: &str| -> Result<bool, Error> {
        Ok(given.or(kwargs.get::<Option<bool>>(name)?).unwrap_or(false))
    };
    let (first, blank) = (flag(first, "first")?, flag(blank, "blank")?);
    kwargs.assert_all_used()?;
    let text = to_str(state, value)?;
    let prefix = match width {
        None => "    ".to_owned(),
        Some(w) => match plain_str(&w) {
            Some(text) => text.to_owned(),
            None => {
                let n = usize::try_from(i64::try_from(w)?).unwrap_or(0);
                if n > MAX_TEXT {
                    return Err(limit("the template indents too far"));
                }
                " ".repeat(n)
            }
        },
    };
    let breaks = text.matches('\n').count() + 1;
    charge(
        state,
        text.len()
            .saturating_add(prefix.len().saturating_mul(breaks)),
    )?;
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i > 0 || first) && (blank || !line.is_empty() || (i == 0 && first)) {
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn wordcount(state: &State, value: &Value) -> Result<usize, Error> {
    let text = to_str(state, value)?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    Ok(text
        .split(|c| !is_word(c))
        .filter(|w| !w.is_empty())
        .count())
}

fn truncate(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (length, kill, end, leeway, kwargs): (
        Option<i64>,
        Option<bool>,
        Option<Value>,
        Option<i64>,
        Kwargs,
    ) = from_args(&args)?;
    let length = length.or(kwargs.get("length")?).unwrap_or(255);
    let kill = kill.or(kwargs.get("killwords")?).unwrap_or(false);
    let end = match end.or(kwargs.get::<Option<Value>>("end")?) {
        Some(end) => to_str(state, &end)?,
        None => "...".into(),
    };
    let leeway = leeway.or(kwargs.get("leeway")?).unwrap_or(5);
    kwargs.assert_all_used()?;
    let text = to_str(state, value)?;
    let chars = text.chars().count() as i64;
    let end_length = end.chars().count() as i64;
    if length < end_length || leeway < 0 {
        return Err(invalid(format!(
            "truncate: the length must be at least {end_length}"
        )));
    }
    if chars <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take((length - end_length) as usize).collect();
    if kill {
        return Ok(kept + &end);
    }
    let whole_words = kept
        .rsplit_once(' ')
        .map_or(kept.as_str(), |(head, _)| head);
    Ok(whole_words.to_owned() + &end)
}

fn striptags(state: &State, value: &Value) -> Result<String, Error> {
    let text = to_str(state, value)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find('<') {
        let close = if rest[start..].starts_with("<!--") {
            "-->"
        } else {
            ">"
        };
        let Some(end) = rest[start..].find(close) else {
            break;
        };
        out.push_str(&rest[..start]);
        rest = &rest[start + end + close.len()..];
    }
    out.push_str(rest);
    let words: Vec<&str> = out.split(is_space).filter(|w| !w.is_empty()).collect();
    let plain = words.join(" ");
    Ok(plain
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&#34;", "\"")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&"))
}

/// `attr` looks at attributes only: the members of a dict are none.
fn attr(value: &Value, name: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Map && !crate::objects::is_namespace(value) {
        return Ok(Value::UNDEFINED);
    }
    if value.as_object().is_none() {
        return Ok(Value::UNDEFINED);
    }
    value.get_item(name)
}

fn int(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (default, base, kwargs): (Option<Value>, Option<u32>, Kwargs) = from_args(&args)?;
    let default = default.or(kwargs.get::<Option<Value>>("default")?);
    let base = base.or(kwargs.get("base")?).unwrap_or(10);
    kwargs.assert_all_used()?;
    let fallback = || default.clone().unwrap_or_else(|| Value::from(0));
    if value.kind() == ValueKind::Bool {
        return Ok(Value::from(i64::from(value.is_true())));
    }
    if let Some(x) = as_float(value) {
        return Ok(float_to_int(x).unwrap_or_else(fallback));
    }
    if value.is_integer() {
        return Ok(value.clone());
    }
    let Some(text) = plain_str(value) else {
        return Ok(fallback());
    };
    let trimmed = text.trim_matches(is_space).replace('_', "");
    if let Some(n) = parse_int(&trimmed, base) {
        return Ok(Value::from(n));
    }
    // Jinja falls back to int(float(text)).
    Ok(trimmed
        .parse::<f64>()
        .ok()
        .and_then(float_to_int)
        .unwrap_or_else(fallback))
}

fn default(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (other, lax, kwargs): (Option<Value>, Option<Value>, Kwargs) = from_args(&args)?;
    let other = other.or(kwargs.get::<Option<Value>>("default_value")?);
    let lax = lax.or(kwargs.get::<Option<Value>>("boolean")?);
    kwargs.assert_all_used()?;
    if value.is_undefined() || (lax.is_some_and(|l| l.is_true()) && !value.is_true()) {
        return Ok(other.unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

fn float_to_int(x: f64) -> Option<Value> {
    (x.is_finite() && x.abs() < 1.7e38).then(|| {
        let whole = x.trunc() as i128;
        i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from)
    })
}

fn parse_int(text: &str, base: u32) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    let prefixed = prefixes
        .iter()
        .find_map(|(p, b)| lower.strip_prefix(p).map(|rest| (rest, *b)));
    let (digits, base) = match (prefixed, base) {
        (Some((rest, b)), 0) => (rest, b),
        (Some((rest, b)), base) if b == base => (rest, b),
        (_, 0) => (lower.as_str(), 10),
        (_, base) => (lower.as_str(), base),
    };
    if !(2..=36).contains(&base) || digits.starts_with(['+', '-']) {
        return None;
    }
    let n = i128::from_str_radix(digits, base).ok()?;
    Some(if negative { -n } else { n })
}

fn float(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    let (default, kwargs): (Option<Value>, Kwargs) = from_args(&args)?;
    let default = default.or(kwargs.get::<Option<Value>>("default")?);
    kwargs.assert_all_used()?;
    let parsed = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            text.trim_matches(is_space).replace('_', "").parse().ok()
        }
        _ => None,
    };
    Ok(parsed
        .map(Value::from)
        .or(default)
        .unwrap_or_else(|| Value::from(0.0)))
}

fn escape(state: &State, value: &Value) -> Result<String, Error> {
    let text = to_str(state, value)?;
    charge(state, text.len() * 5)?;
    Ok(text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&#34;"))
}

fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (start, stop) = second.map_or((0, first), |stop| (first, stop));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(invalid("range() arg 3 must not be zero"));
    }
    let distance = if step > 0 {
        i128::from(stop) - i128::from(start)
    } else {
        i128::from(start) - i128::from(stop)
    };
    let width = i128::from(step).abs();
    let count = ((distance + width - 1) / width).max(0);
    if count > i128::from(MAX_RANGE) {
        return Err(limit(&format!(
            "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MAX_RANGE})."
        )));
    }
    let items = (0..count as i64).map(|i| Value::from(start + i * step));
    Ok(Value::from(items.collect::<Vec<_>>()))
}
