//! A compiled chat template.

use std::error::Error as _;
use std::io;

use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};

use crate::limits;
use crate::request::{Marker, Request};
use crate::strftime::LocalTime;
use crate::{Failure, FailureKind, Raised};

const NAME: &str = "chat template";
const DATE: &str = "ondol_date";

/// Compiled once, rendered from any thread.
pub struct Template {
    env: Environment<'static>,
    source: String,
}

impl Template {
    /// Compiles a template's source.
    pub fn compile(source: &[u8]) -> Result<Template, Failure> {
        if source.len() > limits::MAX_SOURCE {
            return Err(Failure {
                kind: FailureKind::Limit,
                message: format!("the template is longer than {} bytes", limits::MAX_SOURCE),
                line: 0,
            });
        }
        let text = std::str::from_utf8(source).map_err(|e| Failure {
            kind: FailureKind::Syntax,
            message: format!("the template is not UTF-8 at byte {}", e.valid_up_to()),
            line: 0,
        })?;
        let rewritten = crate::rewrite::rewrite(text)?;
        let mut env = environment();
        stacker::grow(limits::STACK, || env.add_template_owned(NAME, rewritten))
            .map_err(|e| failure(&e))?;
        Ok(Template {
            env,
            source: text.to_owned(),
        })
    }

    /// The source as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a request; its strings go through `mark` first.
    pub fn render(
        &self,
        request: &Request,
        size: usize,
        mark: &mut Marker<'_>,
    ) -> Result<String, Failure> {
        let mut env = self.env.clone();
        let bytes = size as u64;
        env.set_fuel(Some(limits::BASE_FUEL + limits::FUEL_PER_BYTE * bytes));
        let values = request.values(mark)?;
        let date = request.date.map_or(Value::from(()), |d| {
            Value::from(d.format("%Y-%m-%dT%H:%M:%S"))
        });
        let context = minijinja::value::merge_maps([Value::from_pairs([(DATE, date)]), values]);
        let mut out = Bounded {
            bytes: Vec::new(),
            most: limits::BASE_OUTPUT + limits::OUTPUT_PER_BYTE * size,
        };
        stacker::grow(limits::STACK, || -> Result<(), Error> {
            env.get_template(NAME)?
                .render_captured_to(context, &mut out)?;
            Ok(())
        })
        .map_err(|e| failure(&e))?;
        let text = String::from_utf8(out.bytes).map_err(|_| Failure {
            kind: FailureKind::Internal,
            message: "the rendered text is not UTF-8".into(),
            line: 0,
        })?;
        request.finish(text)
    }
}

/// Output that refuses to grow beyond a bound.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.most {
            return Err(io::Error::other("limit: the rendered text is too long"));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_syntax(
        minijinja::syntax::SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(false)
            .build()
            .unwrap_or_default(),
    );
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_unknown_method_callback(crate::methods::call);
    env.set_debug(false);
    env.set_formatter(|out, state, value| {
        if let Some(text) = crate::python::plain_str(value) {
            return out.write_str(text).map_err(Error::from);
        }
        out.write_str(&crate::python::to_str(state, value)?)
            .map_err(Error::from)
    });
    crate::filters::install(&mut env);
    env.add_function(
        "strftime_now",
        |state: &State, pattern: &str| -> Result<String, Error> {
            let date = state
                .lookup(DATE)
                .and_then(|d| LocalTime::parse(d.as_str()?));
            let date = date.ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidOperation,
                    "strftime_now: the request has no date",
                )
            })?;
            limits::charge(state, pattern.len() * 16)?;
            Ok(date.format(pattern))
        },
    );
    env
}

/// Takes minijinja's error apart: what kind it is, its words, and the innermost line.
fn failure(error: &Error) -> Failure {
    let mut line = error.line();
    let mut innermost = error;
    let mut raised = false;
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<Error>() {
            line = cause.line().or(line);
            innermost = cause;
        }
        raised |= cause.is::<Raised>();
        source = cause.source();
    }
    let mut message = innermost
        .detail()
        .map_or_else(|| innermost.kind().to_string(), str::to_owned);
    let kind = match innermost.kind() {
        _ if raised => FailureKind::Raise,
        ErrorKind::OutOfFuel => {
            message = "the template does too much work; the limit stopped it".into();
            FailureKind::Limit
        }
        _ if message.contains("recursion limit") => FailureKind::Limit,
        _ if message.starts_with("limit: ") => {
            message = message.split_off("limit: ".len());
            FailureKind::Limit
        }
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownTest => {
            FailureKind::Syntax
        }
        ErrorKind::UndefinedError | ErrorKind::UnknownFunction | ErrorKind::UnknownMethod => {
            FailureKind::Undefined
        }
        ErrorKind::WriteFailure => FailureKind::Limit,
        _ => FailureKind::Runtime,
    };
    Failure {
        kind,
        message,
        line: line.unwrap_or(0) as u32,
    }
}
