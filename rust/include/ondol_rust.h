/* The C ABI of the crate in rust/: chat templates. Thread rule: templates and controls are immutable and may be used
 * from any thread; a result belongs to its caller. Nothing here reads files, the environment or the clock, and no panic
 * comes through. */
#ifndef ONDOL_RUST_H_
#define ONDOL_RUST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct OndolTemplate OndolTemplate;
typedef struct OndolControls OndolControls;

/* Bytes that stay with the caller; UTF-8. `data` may be null where `size` is 0. */
typedef struct OndolBytes {
  const uint8_t* data;
  size_t size;
} OndolBytes;

typedef struct OndolRange {
  size_t begin, end; /* bytes */
} OndolRange;

enum {
  ONDOL_OK = 0,
  ONDOL_SYNTAX = 1,    /* the template cannot be compiled */
  ONDOL_RAISE = 2,     /* the template called raise_exception */
  ONDOL_UNDEFINED = 3, /* something that does not exist was used */
  ONDOL_RUNTIME = 4,   /* an operation failed */
  ONDOL_LIMIT = 5,     /* a bound on time, memory, output or nesting stopped it */
  ONDOL_API = 6,       /* the request was refused before the template ran */
  ONDOL_INTERNAL = 7   /* a bug of the library */
};

typedef struct OndolResult {
  uint32_t kind; /* ONDOL_OK or one of the errors */
  uint32_t line; /* the template's line of the error, from 1; 0 where there is none */
  uint8_t* text; /* the rendered text, or the error's message */
  size_t text_size;
  OndolRange* untrusted; /* control tokens in the text whose letters came from the request, in order */
  size_t untrusted_size;
  bool aligned; /* false: the places are a cautious guess, see rust/src/prompt.rs */
} OndolResult;

/* On success *out holds the template, to be given back with ondol_template_free. */
OndolResult ondol_template_compile(OndolBytes source, OndolTemplate** out);
/* Renders a request, a JSON object. `now` (2026-03-04T09:26:53, local; may be empty) is for one without a date.
 * `controls` may be null. */
OndolResult ondol_template_render(const OndolTemplate* source, OndolBytes request, OndolBytes now,
                                  const OndolControls* controls);
void ondol_template_free(OndolTemplate* source);

/* Prepares the texts of a model's control tokens; null after a failure. */
OndolControls* ondol_controls_new(const OndolBytes* texts, size_t size);
void ondol_controls_free(OndolControls* controls);

/* Gives back a result's memory, once. */
void ondol_result_free(OndolResult result);

#ifdef __cplusplus
}
#endif

#endif
