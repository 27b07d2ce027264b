//! The C ABI; `include/ondol_rust.h` declares the same. No panic crosses it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use crate::prompt::{self, Controls, Prompt};
use crate::template::Template;
use crate::{Failure, FailureKind};

/// Bytes owned by the caller.
#[repr(C)]
pub struct OndolBytes {
    pub data: *const u8,
    pub size: usize,
}

/// Bytes `begin` up to `end`.
#[repr(C)]
pub struct OndolRange {
    pub begin: usize,
    pub end: usize,
}

/// A result: `kind` 0 with the text, or an error with its message. Given back with `ondol_result_free`.
#[repr(C)]
pub struct OndolResult {
    pub kind: u32,
    pub line: u32,
    pub text: *mut u8,
    pub text_size: usize,
    pub untrusted: *mut OndolRange,
    pub untrusted_size: usize,
    pub aligned: bool,
}

impl OndolResult {
    fn new(kind: u32, line: u32, text: String, untrusted: Vec<OndolRange>, aligned: bool) -> Self {
        let text = Box::leak(text.into_bytes().into_boxed_slice());
        let untrusted = Box::leak(untrusted.into_boxed_slice());
        OndolResult {
            kind,
            line,
            text_size: text.len(),
            text: text.as_mut_ptr(),
            untrusted_size: untrusted.len(),
            untrusted: untrusted.as_mut_ptr(),
            aligned,
        }
    }
}

impl From<Failure> for OndolResult {
    fn from(failure: Failure) -> Self {
        OndolResult::new(
            failure.kind as u32,
            failure.line,
            failure.message,
            Vec::new(),
            true,
        )
    }
}

impl From<Prompt> for OndolResult {
    fn from(prompt: Prompt) -> Self {
        let ranges = prompt.untrusted.into_iter();
        let ranges = ranges
            .map(|(begin, end)| OndolRange { begin, end })
            .collect();
        OndolResult::new(0, 0, prompt.text, ranges, prompt.aligned)
    }
}

/// Runs `work`; a panic becomes an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure {
            kind: FailureKind::Internal,
            message: "the template engine failed; please report this template".into(),
            line: 0,
        })
    })
}

/// # Safety
/// `bytes` must point to `size` readable bytes; they may be null where there are none.
unsafe fn view<'a>(bytes: &OndolBytes) -> &'a [u8] {
    if bytes.data.is_null() || bytes.size == 0 {
        &[]
    } else {
        unsafe { slice::from_raw_parts(bytes.data, bytes.size) }
    }
}

/// Compiles a template. On success the result's kind is 0 and `*out` holds the template, to be given back with
/// `ondol_template_free`.
///
/// # Safety
/// `source` must be readable and `out` writable.
#[no_mangle]
pub unsafe extern "C" fn ondol_template_compile(
    source: OndolBytes,
    out: *mut *mut Template,
) -> OndolResult {
    let source = unsafe { view(&source) };
    match guarded(|| Template::compile(source)) {
        Ok(template) => {
            unsafe { *out = Box::into_raw(Box::new(template)) };
            OndolResult::new(0, 0, String::new(), Vec::new(), true)
        }
        Err(failure) => failure.into(),
    }
}

/// Renders a request (a JSON object). `now` is the local time (`2026-03-04T09:26:53`) for a request without a date; it may
/// be empty. `controls` may be null: then nothing is looked for.
///
/// # Safety
/// `template` and `controls` must come from this library and not be freed; the bytes must be readable.
#[no_mangle]
pub unsafe extern "C" fn ondol_template_render(
    template: *const Template,
    request: OndolBytes,
    now: OndolBytes,
    controls: *const Controls,
) -> OndolResult {
    let template = unsafe { &*template };
    let request = unsafe { view(&request) };
    let now = std::str::from_utf8(unsafe { view(&now) }).ok();
    let none = Controls::default();
    let controls = unsafe { controls.as_ref() }.unwrap_or(&none);
    match guarded(|| prompt::render(template, request, now, controls)) {
        Ok(prompt) => prompt.into(),
        Err(failure) => failure.into(),
    }
}

/// Prepares the texts of a model's control tokens; null after a failure. Given back with `ondol_controls_free`.
///
/// # Safety
/// `texts` must point to `size` readable byte ranges.
#[no_mangle]
pub unsafe extern "C" fn ondol_controls_new(
    texts: *const OndolBytes,
    size: usize,
) -> *mut Controls {
    let texts = if size == 0 {
        &[]
    } else {
        unsafe { slice::from_raw_parts(texts, size) }
    };
    let texts = texts
        .iter()
        .filter_map(|t| std::str::from_utf8(unsafe { view(t) }).ok());
    let texts: Vec<&str> = texts.collect();
    match guarded(|| Ok(Controls::new(texts))) {
        Ok(controls) => Box::into_raw(Box::new(controls)),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// `controls` must come from `ondol_controls_new`, or be null; it is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ondol_controls_free(controls: *mut Controls) {
    if !controls.is_null() {
        drop(unsafe { Box::from_raw(controls) });
    }
}

/// # Safety
/// `template` must come from `ondol_template_compile`, or be null; it is not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ondol_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(unsafe { Box::from_raw(template) });
    }
}

/// # Safety
/// `result` must come from this library and be given back once.
#[no_mangle]
pub unsafe extern "C" fn ondol_result_free(result: OndolResult) {
    unsafe {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            result.text,
            result.text_size,
        )));
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            result.untrusted,
            result.untrusted_size,
        )));
    }
}
