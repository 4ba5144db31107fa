/*
 * A loader without a source: it answers an airport's IATA code with what the
 * table in airports.h knows, as JSON, and any other key with absent.
 */
#define COCACHE_BATCH
#include "cocache.h"

#include "airports.h"

#define COUNT (sizeof airports / sizeof airports[0])

static uint8_t upper(uint8_t c) { return c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c; }

/* compare orders a key and a code; every code has three letters. */
static int compare(cocache_bytes key, const char *code) {
  for (int i = 0; i < 3; i++) {
    int d = upper(key.ptr[i]) - (uint8_t)code[i];
    if (d != 0) return d;
  }
  return 0;
}

static const airport *find(cocache_bytes key) {
  if (key.len != 3) return NULL;
  uint32_t low = 0, high = COUNT;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    int d = compare(key, airports[middle].iata);
    if (d == 0) return &airports[middle];
    if (d < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

static uint8_t *put(uint8_t *out, const char *text) {
  while (*text) *out++ = (uint8_t)*text++;
  return out;
}

/* put_string writes a JSON string. UTF-8 goes through as it is. */
static uint8_t *put_string(uint8_t *out, const char *text) {
  static const char hex[] = "0123456789abcdef";
  *out++ = '"';
  for (; *text; text++) {
    uint8_t c = (uint8_t)*text;
    if (c < 0x20) {
      out = put(out, "\\u00");
      *out++ = (uint8_t)hex[c >> 4];
      *out++ = (uint8_t)hex[c & 15];
      continue;
    }
    if (c == '"' || c == '\\') *out++ = '\\';
    *out++ = c;
  }
  *out++ = '"';
  return out;
}

/* room is how many bytes the JSON of an airport takes at most: an escaped byte
 * becomes six. */
static uint32_t room(const airport *a) {
  uint32_t text = cocache_len(a->iata) + cocache_len(a->name) + cocache_len(a->city) + cocache_len(a->country);
  return 128 + 6 * text + cocache_len(a->latitude) + cocache_len(a->longitude);
}

static uint8_t *put_airport(uint8_t *out, const airport *a) {
  out = put_string(put(out, "{\"iata\":"), a->iata);
  out = put_string(put(out, ",\"name\":"), a->name);
  out = put_string(put(out, ",\"city\":"), a->city);
  out = put_string(put(out, ",\"country\":"), a->country);
  out = put(put(out, ",\"latitude\":"), a->latitude);
  out = put(put(out, ",\"longitude\":"), a->longitude);
  return put(out, "}");
}

void cocache_handle(const cocache_request *request, cocache_answer *answer) {
  const airport *a = find(request->key);
  if (!a) {
    cocache_absent(answer);
    return;
  }
  uint8_t *text = cocache_new(room(a));
  if (!text) {
    cocache_error(answer, "", "out of memory");
    return;
  }
  cocache_value(answer, text, (uint32_t)(put_airport(text, a) - text));
}
