//! The reference collection beside the checkout, where it is there; the C++ tests go over the same lines.

use std::fs;
use std::path::PathBuf;

use ondol_rust::prompt::{self, Controls};
use ondol_rust::template::Template;
use ondol_rust::{Failure, FailureKind};
use serde_json::{json, Value as Json};

fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ONDOL_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let path = root.join(name);
    path.exists().then_some(path)
}

fn lines(path: &PathBuf) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap();
    text.split('\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn run(source: &str, request: &Json) -> Result<String, Failure> {
    let template = Template::compile(source.as_bytes())?;
    prompt::render(
        &template,
        request.to_string().as_bytes(),
        None,
        &Controls::default(),
    )
    .map(|p| p.text)
}

fn source_of(case: &Json) -> String {
    if let Some(text) = case["template"].as_str() {
        return text.to_owned();
    }
    let parts = case["template_parts"].as_array().unwrap();
    let part = |p: &Json| {
        p[0].as_str()
            .unwrap()
            .repeat(p[1].as_u64().unwrap() as usize)
    };
    parts.iter().map(part).collect()
}

fn kind_name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Syntax => "syntax",
        FailureKind::Raise => "raise",
        FailureKind::Undefined => "undefined",
        FailureKind::Runtime => "runtime",
        FailureKind::Limit => "limit",
        FailureKind::Api => "api",
        FailureKind::Internal => "internal",
    }
}

/// What is wrong with an outcome, if anything.
fn complaint(case: &Json, matching: &str, got: &Result<String, Failure>) -> Option<String> {
    let want_text = case["rendered"].as_str();
    let want_line = case["error"]["line"].as_u64();
    let ok = match (matching, got) {
        ("exact" | "exact-or-error" | "empty-or-error", Ok(text)) => want_text == Some(text),
        ("exact-or-error" | "empty-or-error" | "error", Err(e)) => e.kind != FailureKind::Internal,
        ("message-and-line", Err(e)) => {
            case["error"]["message"].as_str() == Some(&e.message)
                && want_line == Some(e.line.into())
        }
        ("kind-and-line", Err(e)) => {
            let runtime = |k: &str| if k == "syntax" { "syntax" } else { "run" };
            runtime(kind_name(e.kind)) == runtime(case["error"]["kind"].as_str().unwrap())
                && want_line == Some(e.line.into())
        }
        _ => false,
    };
    (!ok).then(|| match (got, want_text) {
        (Ok(got), Some(want)) => {
            let same = got
                .chars()
                .zip(want.chars())
                .take_while(|(a, b)| a == b)
                .count();
            let tail = |s: &str| {
                s.chars()
                    .skip(same.saturating_sub(20))
                    .take(80)
                    .collect::<String>()
            };
            format!(
                "{}: at {same} got {:?}, want {:?}",
                case["id"],
                tail(got),
                tail(want)
            )
        }
        _ => format!(
            "{}: got {got:?}, want {}{}",
            case["id"], case["rendered"], case["error"]
        ),
    })
}

fn finish(complaints: Vec<String>, total: usize) {
    assert!(
        complaints.is_empty(),
        "{} of {total} differ:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

#[test]
fn published_templates() {
    let Some(folder) = shared("reference/templates") else {
        return;
    };
    let mut complaints = Vec::new();
    let mut total = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "jinja") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        for case in lines(&path.with_extension("jsonl")) {
            total += 1;
            let got = run(&source, &case);
            let matching = match case["error"]["kind"].as_str() {
                None => "exact",
                Some("raise") => "message-and-line",
                Some(_) => "kind-and-line",
            };
            complaints.extend(complaint(&case, matching, &got));
        }
    }
    finish(complaints, total);
}

#[test]
fn the_language() {
    let Some(path) = shared("reference/templates/jinja.jsonl") else {
        return;
    };
    let cases = lines(&path);
    let mut complaints = Vec::new();
    for case in &cases {
        let request = json!({"context": case["context"], "date": case["date"]});
        let got = run(&source_of(case), &request);
        complaints.extend(complaint(case, case["match"].as_str().unwrap(), &got));
    }
    finish(complaints, cases.len());
}

#[test]
fn ways_in_which_servers_fail() {
    let Some(path) = shared("cases/chat_templates.jsonl") else {
        return;
    };
    let cases = lines(&path);
    let mut complaints = Vec::new();
    for case in &cases {
        let input = &case["input"];
        // The server parses argument text before it renders.
        if input["path"] == "chat request" {
            continue;
        }
        let source = match input["template_repeat"].as_array() {
            Some(r) => {
                let n = r[1].as_u64().unwrap() as usize;
                let s = |i: usize| r[i].as_str().unwrap();
                format!(
                    "{}{}{}{}{}",
                    s(2),
                    s(0).repeat(n),
                    s(3),
                    s(4).repeat(n),
                    s(5)
                )
            }
            None => input["template"].as_str().unwrap().to_owned(),
        };
        let got = run(
            &source,
            &json!({"context": input["context"], "date": input["now"]}),
        );
        let expected = &case["expected"];
        let ok = match &got {
            Ok(text) => expected["rendered"].as_str() == Some(text),
            Err(e) => {
                let mention = expected["message_should_mention"].as_str().unwrap_or("");
                expected["error"] == true
                    && e.kind != FailureKind::Internal
                    && e.message.contains(mention)
            }
        };
        if !ok {
            complaints.push(format!("{}: got {got:?}, want {expected}", case["id"]));
        }
    }
    finish(complaints, cases.len());
}
