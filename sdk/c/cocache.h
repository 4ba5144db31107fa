/*
 * cocache.h: a Wasm loader in one C function, ABI version 1.
 *
 * Include it in one source file and define cocache_handle. It needs no C
 * library. Build with clang and wasm-ld:
 *
 *   clang --target=wasm32 -nostdlib -ffreestanding -O2 -mbulk-memory \
 *         -Wl,--no-entry -o loader.wasm loader.c
 *
 * Define COCACHE_BATCH before the include to answer batches too, key by key.
 *
 * Memory from cocache_new lives until the call ends; there is no free. Static
 * variables live as long as the instance, of which there may be several.
 */
#ifndef COCACHE_H
#define COCACHE_H

#include <stddef.h>
#include <stdint.h>

#define COCACHE_IMPORT(name) __attribute__((import_module("cocache"), import_name(#name)))
#define COCACHE_EXPORT(name) __attribute__((export_name(#name)))

#define COCACHE_TTL_DEFAULT 0xFFFFFFFFu /* the namespace's */
#define COCACHE_TTL_FOREVER 0xFFFFFFFEu

enum { COCACHE_VALUE = 0, COCACHE_ABSENT = 1, COCACHE_RETRY = 2, COCACHE_ERROR = 3, COCACHE_NO_STORE = 4 };
enum { COCACHE_DEBUG = 0, COCACHE_INFO = 1, COCACHE_WARN = 2, COCACHE_LOG_ERROR = 3 };

/* What a host function answers instead of a length. */
enum {
  COCACHE_NOT_FOUND = -1,
  COCACHE_DENIED = -2,
  COCACHE_LIMIT = -3,
  COCACHE_DEADLINE = -4,
  COCACHE_BAD_ARGUMENT = -5,
  COCACHE_FAILED = -6,
  COCACHE_RECURSION = -7
};

typedef struct {
  const uint8_t *ptr;
  uint32_t len;
} cocache_bytes;

typedef struct {
  cocache_bytes key;
  uint64_t previous; /* version that is being replaced, 0 when not known */
  uint32_t budget_ms;
  uint8_t background; /* no reader waits */
  uint8_t batch;      /* one key of several */
} cocache_request;

/* An answer is a value of zero bytes until it is made something else. What its
 * fields point to must live until the call ends. */
typedef struct {
  uint8_t status;
  uint32_t ttl_ms; /* milliseconds or a COCACHE_TTL word; 0 is an error */
  uint64_t version;
  cocache_bytes body;
  cocache_bytes content_type; /* of a raw value; may be empty */
  cocache_bytes code;         /* of an error; may be empty */
} cocache_answer;

/* The loader. The author defines it. */
void cocache_handle(const cocache_request *request, cocache_answer *answer);

/* The host's functions. A result of 0 or more is a length; when it is more than
 * cap, nothing was written or consumed: call again with more room. */
COCACHE_IMPORT(log) void cocache_log(uint32_t level, const void *text, uint32_t len);
COCACHE_IMPORT(setting) int32_t cocache_setting(const void *name, uint32_t len, void *buf, uint32_t cap);
COCACHE_IMPORT(secret) int32_t cocache_secret(const void *name, uint32_t len, void *buf, uint32_t cap);
COCACHE_IMPORT(now_ms) uint64_t cocache_now_ms(void);
COCACHE_IMPORT(random) int32_t cocache_random(void *buf, uint32_t len);
COCACHE_IMPORT(traceparent) int32_t cocache_traceparent(void *buf, uint32_t cap);
/* request: "GET https://example.com/\nname: value\n\nbody". Answers a handle;
 * several requests may run side by side. */
COCACHE_IMPORT(fetch) int32_t cocache_fetch(const void *request, uint32_t len);
COCACHE_IMPORT(get) int32_t cocache_get(const void *ns, uint32_t ns_len, const void *key, uint32_t key_len);
/* "200 https://example.com/\nname: value\n", or "ttl: 5m\nversion: 1\n". */
COCACHE_IMPORT(info) int32_t cocache_info(int32_t handle, void *buf, uint32_t cap);
COCACHE_IMPORT(read) int32_t cocache_read(int32_t handle, void *buf, uint32_t cap); /* 0 is the end */
COCACHE_IMPORT(close) int32_t cocache_close(int32_t handle);

/* Memory of the call: everything from cocache_top on is free, and cocache_alloc
 * goes back to the beginning. */
extern uint8_t __heap_base;
static uint8_t *cocache_top;

/* cocache_new answers len bytes that live until the call ends, or NULL. */
static inline void *cocache_new(uint32_t len) {
  uint64_t begin = (uint32_t)(uintptr_t)cocache_top;
  uint64_t end = (begin + len + 7) & ~(uint64_t)7;
  uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
  if (end >= 0xFFFFFFFFu) return NULL;
  if (end > have && __builtin_wasm_memory_grow(0, (size_t)((end - have + 0xFFFF) >> 16)) == (size_t)-1) return NULL;
  cocache_top = (uint8_t *)(uintptr_t)end;
  return (void *)(uintptr_t)begin;
}

static inline uint32_t cocache_len(const char *text) {
  uint32_t n = 0;
  while (text[n]) n++;
  return n;
}

static inline cocache_bytes cocache_text(const char *text) {
  return (cocache_bytes){(const uint8_t *)text, cocache_len(text)};
}

static inline void cocache_value(cocache_answer *a, const void *ptr, uint32_t len) {
  a->status = COCACHE_VALUE;
  a->body = (cocache_bytes){(const uint8_t *)ptr, len};
}

static inline void cocache_absent(cocache_answer *a) {
  a->status = COCACHE_ABSENT;
  a->body.len = 0;
}

/* cocache_retry reports passing trouble; after_ms is the earliest retry or
 * COCACHE_TTL_DEFAULT. */
static inline void cocache_retry(cocache_answer *a, const char *message, uint32_t after_ms) {
  a->status = COCACHE_RETRY;
  a->body = cocache_text(message);
  a->ttl_ms = after_ms;
}

/* cocache_error reports a failure; code is a word, or "". */
static inline void cocache_error(cocache_answer *a, const char *code, const char *message) {
  a->status = COCACHE_ERROR;
  a->body = cocache_text(message);
  a->code = cocache_text(code);
}

/* From here on: frames. Bytes are copied one by one where they may not be
 * aligned; clang makes one load of four. */
static inline uint32_t cocache_get32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t cocache_get64(const uint8_t *p) {
  return cocache_get32(p) | (uint64_t)cocache_get32(p + 4) << 32;
}

static inline uint8_t *cocache_put32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
  return p + 4;
}

static inline uint8_t *cocache_put_tlv(uint8_t *p, uint32_t type, cocache_bytes b) {
  if (b.len == 0) return p;
  p = cocache_put32(p, type);
  p = cocache_put32(p, b.len);
  __builtin_memcpy(p, b.ptr, b.len);
  return p + b.len;
}

static inline uint32_t cocache_tlv_size(cocache_bytes b) { return b.len ? 8 + b.len : 0; }

typedef struct {
  uint8_t *ptr;
  uint32_t len, cap;
} cocache_buffer;

/* cocache_room makes room for more bytes; 0 when there is none. What lies last
 * in memory grows where it is. */
static inline int cocache_room(cocache_buffer *b, uint64_t more) {
  uint64_t need = b->len + more;
  if (need <= b->cap) return 1;
  if (need > 0x7FFFFFFF) return 0;
  if (b->ptr && b->ptr + b->cap == cocache_top) {
    uint32_t step = (uint32_t)(need - b->cap + 7) & ~7u;
    if (!cocache_new(step)) return 0;
    b->cap += step;
    return 1;
  }
  uint32_t cap = b->cap < need / 2 ? (uint32_t)need : (uint32_t)need + b->cap;
  cap = (cap + 7) & ~7u;
  uint8_t *ptr = (uint8_t *)cocache_new(cap);
  if (!ptr) return 0;
  if (b->len) __builtin_memcpy(ptr, b->ptr, b->len);
  b->ptr = ptr;
  b->cap = cap;
  return 1;
}

static inline int cocache_append(cocache_buffer *b, const cocache_answer *a) {
  uint64_t tlvs = (uint64_t)cocache_tlv_size(a->content_type) + cocache_tlv_size(a->code);
  uint64_t size = 24 + (uint64_t)a->body.len + tlvs;
  if (!cocache_room(b, size)) return 0;
  uint8_t *p = cocache_put32(b->ptr + b->len, a->status);
  p = cocache_put32(p, a->ttl_ms);
  p = cocache_put32(p, (uint32_t)a->version);
  p = cocache_put32(p, (uint32_t)(a->version >> 32));
  p = cocache_put32(p, a->body.len);
  p = cocache_put32(p, (uint32_t)tlvs);
  if (a->body.len) __builtin_memcpy(p, a->body.ptr, a->body.len);
  p = cocache_put_tlv(p + a->body.len, 1, a->content_type);
  cocache_put_tlv(p, 2, a->code);
  b->len += (uint32_t)size;
  return 1;
}

/* cocache_answer_all answers every key of a request; 0 when memory ran out. The
 * host wrote the request, so its numbers are not doubted; fields that a newer
 * host adds are stepped over. */
static inline uint64_t cocache_answer_all(const uint8_t *frame) {
  cocache_buffer out = {0, 0, 0};
  cocache_request r = {0};
  const uint8_t *record = frame + (frame[0] | (uint32_t)frame[1] << 8);
  r.batch = frame[2];
  r.background = frame[3] & 1;
  r.budget_ms = cocache_get32(frame + 4);
  for (uint32_t left = cocache_get32(frame + 8); left > 0; left--) {
    cocache_answer a = {.ttl_ms = COCACHE_TTL_DEFAULT};
    r.key = (cocache_bytes){record + 16, cocache_get32(record + 4)};
    r.previous = cocache_get64(record + 8);
    cocache_handle(&r, &a);
    if (!cocache_append(&out, &a)) return 0;
    record += 4 + cocache_get32(record);
  }
  return (uint64_t)(uintptr_t)out.ptr << 32 | out.len;
}

COCACHE_EXPORT(cocache_abi_v1) void cocache_abi_v1(void) {}

COCACHE_EXPORT(cocache_alloc) void *cocache_alloc(uint32_t size) {
  cocache_top = (uint8_t *)(((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7);
  return cocache_new(size);
}

COCACHE_EXPORT(cocache_load) uint64_t cocache_load(const uint8_t *frame, uint32_t len) {
  (void)len;
  return cocache_answer_all(frame);
}

#ifdef COCACHE_BATCH
COCACHE_EXPORT(cocache_load_all) uint64_t cocache_load_all(const uint8_t *frame, uint32_t len) {
  (void)len;
  return cocache_answer_all(frame);
}
#endif

#endif
