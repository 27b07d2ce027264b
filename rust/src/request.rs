//! What Hugging Face's `apply_chat_template` does around the template: it cleans the messages before and cuts the text
//! after, and it hands the options over as variables.

use minijinja::value::Value;
use serde_json::{Map, Value as Json};

use crate::strftime::LocalTime;
use crate::{Failure, FailureKind};

const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// A request taken apart: the template's variables and what to do afterwards.
pub struct Request {
    pub variables: Map<String, Json>,
    pub date: Option<LocalTime>,
    pub continue_final: bool,
}

fn refuse(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::Api,
        message: message.into(),
        line: 0,
    }
}

impl Request {
    /// Reads `{"messages","tools","options","date"}`, or `{"context","date"}` where the variables are given as they are.
    /// `now` stands for a missing date.
    pub fn parse(json: &[u8], now: Option<&str>) -> Result<Request, Failure> {
        let text = std::str::from_utf8(json).map_err(|e| {
            refuse(format!(
                "the request is not UTF-8 at byte {}",
                e.valid_up_to()
            ))
        })?;
        let parsed: Json = serde_json::from_str(text)
            .map_err(|e| refuse(format!("the request is not valid JSON: {e}")))?;
        let Json::Object(mut object) = parsed else {
            return Err(refuse("the request must be a JSON object"));
        };
        let date = match object.remove("date") {
            None | Some(Json::Null) => now.and_then(LocalTime::parse),
            Some(Json::String(text)) => Some(LocalTime::parse(&text).ok_or_else(|| {
                refuse(format!(
                    "`date` must be like 2026-03-04T09:26:53, not {text:?}"
                ))
            })?),
            Some(_) => return Err(refuse("`date` must be a string")),
        };
        if let Some(context) = object.remove("context") {
            let Json::Object(variables) = context else {
                return Err(refuse("`context` must be an object"));
            };
            return Ok(Request {
                variables,
                date,
                continue_final: false,
            });
        }
        Request::from_chat(object, date)
    }

    fn from_chat(
        mut object: Map<String, Json>,
        date: Option<LocalTime>,
    ) -> Result<Request, Failure> {
        let Some(Json::Array(mut messages)) = object.remove("messages") else {
            return Err(refuse("`messages` must be an array"));
        };
        for message in &mut messages {
            let Json::Object(message) = message else {
                return Err(refuse("each message must be an object"));
            };
            clean_message(message);
        }
        let mut variables = match object.remove("options") {
            None | Some(Json::Null) => Map::new(),
            Some(Json::Object(options)) => options,
            Some(_) => return Err(refuse("`options` must be an object")),
        };
        let continued = variables.remove("continue_final_message");
        let continue_final = match continued {
            None | Some(Json::Null | Json::Bool(false)) => false,
            Some(which) => {
                if variables.get("add_generation_prompt") == Some(&Json::Bool(true)) {
                    return Err(refuse(
                        "continue_final_message and add_generation_prompt exclude each other",
                    ));
                }
                mark_final_message(&mut messages, &which)?;
                true
            }
        };
        let tools = object.remove("tools").unwrap_or(Json::Null);
        variables.insert("messages".into(), Json::Array(messages));
        variables.insert("tools".into(), tools);
        variables.entry("documents").or_insert(Json::Null);
        Ok(Request {
            variables,
            date,
            continue_final,
        })
    }

    /// The variables as template values, each string handed through `mark`.
    pub fn values(&self, mark: &mut Marker<'_>) -> Result<Value, Failure> {
        let mut pairs = Vec::with_capacity(self.variables.len());
        for (name, value) in &self.variables {
            // Tokens that the model file names (bos_token, ...) are the template's own.
            let trusted = name.ends_with("_token");
            let value = if trusted {
                to_value(value, &mut |_, _| None)?
            } else {
                to_value(value, mark)?
            };
            pairs.push((name.clone(), value));
        }
        Ok(Value::from_pairs(pairs))
    }

    /// Cuts the text after the final message where that one is to be continued.
    pub fn finish(&self, mut text: String) -> Result<String, Failure> {
        if !self.continue_final {
            return Ok(text);
        }
        let tag = CONTINUE_TAG.trim_end();
        let Some(at) = text.rfind(tag) else {
            return Err(refuse(
                "continue_final_message: the template does not write the final message as it is, so it cannot be continued",
            ));
        };
        let space_kept = text[at..].starts_with(CONTINUE_TAG);
        text.truncate(at);
        if !space_kept {
            text.truncate(text.trim_end_matches(crate::methods::is_space).len());
        }
        Ok(text)
    }
}

/// Drops members that are null and gives the reasoning text its common names.
fn clean_message(message: &mut Map<String, Json>) {
    message.retain(|_, value| !value.is_null());
    let reasoning = ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|name| message.get(*name))
        .cloned();
    if let Some(reasoning) = reasoning {
        message.insert("reasoning_content".into(), reasoning.clone());
        message.entry("thinking").or_insert(reasoning);
    }
}

fn mark_final_message(messages: &mut [Json], which: &Json) -> Result<(), Failure> {
    let field = match which {
        Json::Bool(true) => "content",
        Json::String(name) => name.as_str(),
        _ => {
            return Err(refuse(
                "continue_final_message must be true or the name of a member",
            ))
        }
    };
    let Some(Json::Object(last)) = messages.last_mut() else {
        return Err(refuse("continue_final_message: there is no message"));
    };
    let aliases = ["reasoning_content", "thinking", "reasoning"];
    let original = last.get(field).cloned();
    let mut done = false;
    let copies: Vec<&str> = if aliases.contains(&field) {
        aliases.to_vec()
    } else {
        vec![field]
    };
    for name in copies {
        match last.get_mut(name) {
            Some(Json::String(text))
                if Some(&*text)
                    == original
                        .as_ref()
                        .and_then(Json::as_str)
                        .map(String::from)
                        .as_ref() =>
            {
                text.push_str(CONTINUE_TAG);
                done = true;
            }
            Some(Json::Array(parts)) => done |= mark_last_text(parts),
            _ => {}
        }
    }
    if done {
        Ok(())
    } else {
        Err(refuse(format!(
            "continue_final_message: the last message has no text in `{field}`"
        )))
    }
}

fn mark_last_text(parts: &mut [Json]) -> bool {
    for part in parts.iter_mut().rev() {
        if let Some(Json::String(text)) = part.get_mut("text") {
            text.push_str(CONTINUE_TAG);
            return true;
        }
    }
    false
}

/// Gives the marked form of a string of the request, or None where it stays; the flag is set for an object's key.
pub type Marker<'a> = dyn FnMut(&str, bool) -> Option<String> + 'a;

/// JSON to a template value: the order of keys is kept, 1.0 stays a float, 1 an int.
pub fn to_value(json: &Json, mark: &mut Marker<'_>) -> Result<Value, Failure> {
    Ok(match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(number) => number_value(&number.to_string())?,
        Json::String(text) => match mark(text, false) {
            Some(marked) => Value::from(marked),
            None => Value::from(text.as_str()),
        },
        Json::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                values.push(to_value(item, mark)?);
            }
            Value::from(values)
        }
        Json::Object(members) => {
            let mut pairs = Vec::with_capacity(members.len());
            for (key, value) in members {
                let key = mark(key, true).unwrap_or_else(|| key.clone());
                pairs.push((key, to_value(value, mark)?));
            }
            Value::from_pairs(pairs)
        }
    })
}

fn number_value(text: &str) -> Result<Value, Failure> {
    if !text.contains(['.', 'e', 'E']) {
        if let Ok(n) = text.parse::<i64>() {
            return Ok(Value::from(n));
        }
        if let Ok(n) = text.parse::<i128>() {
            return Ok(Value::from(n));
        }
        if let Ok(n) = text.parse::<u128>() {
            return Ok(Value::from(n));
        }
        return Err(refuse(format!(
            "the integer {text} is too large: at most 128 bits can be rendered"
        )));
    }
    text.parse::<f64>()
        .map(Value::from)
        .map_err(|_| refuse(format!("the number {text} cannot be read")))
}
