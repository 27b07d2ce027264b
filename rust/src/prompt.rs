//! Rendering with the knowledge of where control tokens came from.
//!
//! A control token's letters inside a message must not become the control token. So the request is rendered twice where
//! its strings hold such letters: as it is, which gives the text, and with a marker (a character that occurs nowhere
//! else) put inside each such place. Where markers stand in the second text, the first one's letters came from the
//! request.

use crate::request::Request;
use crate::template::Template;
use crate::Failure;

/// A rendered prompt and the byte ranges in it whose control-token letters came from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    pub untrusted: Vec<(usize, usize)>,
    /// False where the two renderings differ by more than the markers; then every place of a control token that
    /// the request's strings mention is untrusted, also where the template wrote it.
    pub aligned: bool,
}

/// Renders a request (JSON). `controls` are the texts of the model's control tokens.
pub fn render(template: &Template, json: &[u8], controls: &[&str]) -> Result<Prompt, Failure> {
    let request = Request::parse(json)?;
    let text = template.render(&request, json.len(), &mut |_, _| None)?;
    let controls: Vec<&str> = controls
        .iter()
        .copied()
        .filter(|c| c.chars().nth(1).is_some())
        .collect();
    let mut marks = Marks {
        marker: free_marker(&text, json),
        controls: &controls,
        touched: vec![false; controls.len()],
    };
    let marked = template.render(&request, json.len(), &mut |s, key| marks.mark(s, key));
    if !marks.touched.contains(&true) {
        return Ok(Prompt {
            text,
            untrusted: Vec::new(),
            aligned: true,
        });
    }
    let marker = marks.marker;
    let aligned = marked
        .ok()
        .filter(|marked| marked.chars().filter(|c| *c != marker).eq(text.chars()));
    let untrusted = match &aligned {
        Some(marked) => broken_places(&text, &marker_positions(marked, marker), &controls),
        None => {
            let touched = controls.iter().zip(&marks.touched);
            let names: Vec<&str> = touched.filter(|(_, t)| **t).map(|(c, _)| *c).collect();
            all_places(&text, &names)
        }
    };
    Ok(Prompt {
        text,
        untrusted,
        aligned: aligned.is_some(),
    })
}

/// A private-use character that neither the text nor the request holds.
fn free_marker(text: &str, json: &[u8]) -> char {
    let json = String::from_utf8_lossy(json);
    // JSON may also write the character as an escape, but then the rendered text has it, or it does not matter.
    (0xF_0000..=0xF_FFFD)
        .filter_map(char::from_u32)
        .find(|c| !text.contains(*c) && !json.contains(*c))
        .unwrap_or('\u{10fffd}')
}

struct Marks<'a> {
    marker: char,
    controls: &'a [&'a str],
    touched: Vec<bool>,
}

impl Marks<'_> {
    /// The string with a marker after the first character of each control token in it, and within what could be a part
    /// of one that is put together from several strings. None where it holds nothing of the kind.
    fn mark(&mut self, text: &str, is_key: bool) -> Option<String> {
        let mut cuts: Vec<usize> = Vec::new();
        for (i, control) in self.controls.iter().enumerate() {
            let first = control.chars().next().map_or(1, char::len_utf8);
            let before = cuts.len();
            // A match may begin inside the one before it.
            let mut from = 0;
            while let Some(at) = text[from..].find(control) {
                cuts.push(from + at + first);
                from += at + first;
            }
            if !is_key {
                partial_cuts(text, control, &mut cuts);
            }
            self.touched[i] |= cuts.len() > before;
        }
        if cuts.is_empty() {
            return None;
        }
        cuts.sort_unstable();
        cuts.dedup();
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
}

fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Ends of `text` that begin a control token, beginnings that end one, and a text that is inside of one. Plain words
/// stay: a template may well build `<|user|>` from the role's name.
fn partial_cuts(text: &str, control: &str, cuts: &mut Vec<usize>) {
    let first_length = |s: &str| s.chars().next().map_or(0, char::len_utf8);
    for (split, _) in control.char_indices().skip(1) {
        let (head, tail) = control.split_at(split);
        if !is_plain(head) && text.len() >= head.len() && text.ends_with(head) {
            cuts.push(text.len() - head.len() + first_length(head));
        }
        if !is_plain(tail) && tail.chars().nth(1).is_some() && text.starts_with(tail) {
            cuts.push(first_length(tail));
        }
    }
    let inside = text.len() < control.len() && text.chars().nth(1).is_some();
    if inside && !is_plain(text) && control.contains(text) {
        cuts.push(first_length(text));
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

/// Control tokens with a marker strictly inside.
fn broken_places(text: &str, markers: &[usize], controls: &[&str]) -> Vec<(usize, usize)> {
    let mut places = all_places(text, controls);
    places.retain(|(begin, end)| {
        let next = markers.partition_point(|m| m <= begin);
        markers.get(next).is_some_and(|m| m < end)
    });
    places
}

/// All places where one of `controls` stands, overlapping ones too, in order.
fn all_places(text: &str, controls: &[&str]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for control in controls {
        let first = control.chars().next().map_or(1, char::len_utf8);
        let mut from = 0;
        while let Some(at) = text[from..].find(control) {
            places.push((from + at, from + at + control.len()));
            from += at + first;
        }
    }
    places.sort_unstable();
    places
}
