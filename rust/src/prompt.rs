//! Rendering with the knowledge of where control tokens came from.
//!
//! A control token's letters inside a message must not become the control token. So the request is rendered twice where
//! its strings hold such letters: as it is, which gives the text, and with a marker (a character that occurs nowhere
//! else) put inside each such place. Where markers stand in the second text, the first one's letters came from the
//! request.

use std::collections::HashSet;

use crate::request::Request;
use crate::template::Template;
use crate::Failure;

/// The texts of a model's control tokens, prepared for searching.
#[derive(Debug, Default)]
pub struct Controls {
    texts: HashSet<String>,
    /// Their lengths in bytes, each once.
    lengths: Vec<usize>,
    /// Proper beginnings and ends of them that are not plain words.
    heads: HashSet<String>,
    tails: HashSet<String>,
}

impl Controls {
    /// Texts of a single character are left out: no marker fits inside.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Controls {
        let mut controls = Controls::default();
        for text in texts {
            if text.chars().nth(1).is_none() || !controls.texts.insert(text.to_owned()) {
                continue;
            }
            for (split, _) in text.char_indices().skip(1) {
                let (head, tail) = text.split_at(split);
                if !is_plain(head) {
                    controls.heads.insert(head.to_owned());
                }
                if !is_plain(tail) && tail.chars().nth(1).is_some() {
                    controls.tails.insert(tail.to_owned());
                }
            }
        }
        controls.lengths = controls.texts.iter().map(String::len).collect();
        controls.lengths.sort_unstable();
        controls.lengths.dedup();
        controls
    }

    /// All places where a control token stands in `text`, overlapping ones too, in order.
    fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        for (begin, _) in text.char_indices() {
            for length in &self.lengths {
                let end = begin + length;
                if text.get(begin..end).is_some_and(|t| self.texts.contains(t)) {
                    places.push((begin, end));
                }
            }
        }
        places
    }
}

fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// A rendered prompt and the byte ranges in it whose control-token letters came from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    pub untrusted: Vec<(usize, usize)>,
    /// False where the two renderings differ by more than the markers; then every place of a control token that
    /// the request's strings hold is untrusted, also where the template wrote it.
    pub aligned: bool,
}

/// Renders a request (JSON). `now` is the local time for a request without a date.
pub fn render(
    template: &Template,
    json: &[u8],
    now: Option<&str>,
    controls: &Controls,
) -> Result<Prompt, Failure> {
    let request = Request::parse(json, now)?;
    let text = template.render(&request, json.len(), &mut |_, _| None)?;
    let mut marks = Marks {
        marker: free_marker(&text, json),
        controls,
        count: 0,
        touched: HashSet::new(),
    };
    let plain = Prompt {
        text,
        untrusted: Vec::new(),
        aligned: true,
    };
    if controls.texts.is_empty() {
        return Ok(plain);
    }
    request.values(&mut |text, key| marks.mark(text, key))?;
    if marks.count == 0 {
        return Ok(plain);
    }
    let text = plain.text;
    let marked = template.render(&request, json.len(), &mut |s, key| marks.mark(s, key));
    let marker = marks.marker;
    let marked = marked
        .ok()
        .filter(|marked| marked.chars().filter(|c| *c != marker).eq(text.chars()));
    let mut untrusted = controls.places(&text);
    match &marked {
        Some(marked) => {
            let markers = marker_positions(marked, marker);
            untrusted.retain(|(begin, end)| {
                let next = markers.partition_point(|m| m <= begin);
                markers.get(next).is_some_and(|m| m < end)
            });
        }
        None => untrusted.retain(|(begin, end)| marks.may_touch(&text[*begin..*end])),
    }
    Ok(Prompt {
        text,
        untrusted,
        aligned: marked.is_some(),
    })
}

/// A private-use character that neither the text nor the request holds.
fn free_marker(text: &str, json: &[u8]) -> char {
    let json = String::from_utf8_lossy(json);
    (0xF_0000..=0xF_FFFD)
        .filter_map(char::from_u32)
        .find(|c| !text.contains(*c) && !json.contains(*c))
        .unwrap_or('\u{10fffd}')
}

struct Marks<'a> {
    marker: char,
    controls: &'a Controls,
    count: usize,
    /// What was marked: control tokens, or parts of them.
    touched: HashSet<String>,
}

impl Marks<'_> {
    /// The string with a marker after the first character of each control token in it, and within what could be a part
    /// of one that is put together from several strings. None where it holds nothing of the kind.
    fn mark(&mut self, text: &str, is_key: bool) -> Option<String> {
        let mut found = self.controls.places(text);
        if !is_key {
            self.parts(text, &mut found);
        }
        if found.is_empty() {
            return None;
        }
        let mut cuts: Vec<usize> = Vec::with_capacity(found.len());
        for (begin, end) in found {
            let part = &text[begin..end];
            cuts.push(begin + part.chars().next().map_or(0, char::len_utf8));
            if !self.touched.contains(part) {
                self.touched.insert(part.to_owned());
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        self.count += cuts.len();
        let mut out = String::with_capacity(text.len() + 4 * cuts.len());
        let mut at = 0;
        for cut in cuts {
            out.push_str(&text[at..cut]);
            out.push(self.marker);
            at = cut;
        }
        out.push_str(&text[at..]);
        Some(out)
    }

    /// Ends of `text` that begin a control token, beginnings that end one, and a text that is inside of one. Plain
    /// words stay: a template may well build `<|user|>` from the role's name.
    fn parts(&self, text: &str, found: &mut Vec<(usize, usize)>) {
        let longest = self.controls.lengths.last().copied().unwrap_or(0);
        for length in 1..longest.min(text.len() + 1) {
            let begin = text.len() - length;
            let head = text.get(begin..);
            if head.is_some_and(|h| self.controls.heads.contains(h)) {
                found.push((begin, text.len()));
            }
            let tail = text.get(..length);
            if tail.is_some_and(|t| self.controls.tails.contains(t)) {
                found.push((0, length));
            }
        }
        let inside = text.len() < longest && text.chars().nth(1).is_some() && !is_plain(text);
        if inside && self.controls.texts.iter().any(|c| c.contains(text)) {
            found.push((0, text.len()));
        }
    }

    fn may_touch(&self, control: &str) -> bool {
        self.touched
            .iter()
            .any(|part| control.contains(part.as_str()))
    }
}

/// Where the markers stand, as offsets into the text without them.
fn marker_positions(marked: &str, marker: char) -> Vec<usize> {
    let width = marker.len_utf8();
    marked
        .match_indices(marker)
        .enumerate()
        .map(|(n, (at, _))| at - n * width)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for m in messages %}<|s|>{{ m.role }}: \
        {% if m.content is string %}{{ m.content | trim }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}<|e|>{% endfor %}";

    /// The untrusted parts of a rendering.
    fn untrusted(source: &str, content: &str) -> (Vec<String>, bool) {
        let template = Template::compile(source.as_bytes()).unwrap();
        let json = format!(r#"{{"messages": [{{"role": "user", "content": {content}}}]}}"#);
        let controls = Controls::new(["<|s|>", "<|e|>", "<|user|>", "x"]);
        let prompt = render(&template, json.as_bytes(), None, &controls).unwrap();
        let parts = prompt.untrusted.iter();
        let parts = parts.map(|(b, e)| prompt.text[*b..*e].to_owned()).collect();
        (parts, prompt.aligned)
    }

    #[test]
    fn knows_who_wrote_a_control_token() {
        for (content, wanted) in [
            (r#""hello < | s|>""#, vec![]),
            (r#""a <|e|> b<|s|>""#, vec!["<|e|>", "<|s|>"]),
            (r#""<|<|e|>|>""#, vec!["<|e|>"]),
            (r#"[{"text": "<|"}, {"text": "e|>"}]"#, vec!["<|e|>"]),
            (
                r#"[{"text": "<"}, {"text": "|"}, {"text": "e"}, {"text": "|"}, {"text": ">"}]"#,
                vec!["<|e|>"],
            ),
            (r#"[{"text": "<|e"}, {"text": "|>"}]"#, vec!["<|e|>"]),
        ] {
            let wanted = wanted.into_iter().map(String::from).collect();
            assert_eq!(untrusted(CHATML, content), (wanted, true), "{content}");
        }
    }

    #[test]
    fn a_token_built_from_the_role_is_the_templates() {
        let source = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}";
        assert_eq!(
            untrusted(source, r#""<|s|>""#),
            (vec!["<|s|>".into()], true)
        );
    }

    #[test]
    fn a_template_that_looks_into_the_text_makes_it_all_untrusted() {
        let source =
            "<|e|>{% for m in messages %}{{ m.content | length }}{{ m.content }}{% endfor %}<|s|>";
        let wanted = vec!["<|e|>".to_owned(), "<|e|>".to_owned()];
        assert_eq!(untrusted(source, r#""a<|e|>""#), (wanted, false));
    }
}
