/* The loader that the tests talk to, in C. See build.sh. */
#define COCACHE_BATCH
#include "cocache.h"

__attribute__((import_module("wasi_snapshot_preview1"), import_name("poll_oneoff")))
int32_t poll_oneoff(const void *in, void *out, uint32_t count, uint32_t *events);

static int is(cocache_bytes key, const char *word) {
  uint32_t n = cocache_len(word);
  return key.len == n && __builtin_memcmp(key.ptr, word, n) == 0;
}

int memcmp(const void *a, const void *b, size_t n) {
  const uint8_t *x = a, *y = b;
  for (size_t i = 0; i < n; i++)
    if (x[i] != y[i]) return x[i] - y[i];
  return 0;
}

/* after says whether key begins with prefix, and puts what follows in rest. */
static int after(cocache_bytes key, const char *prefix, cocache_bytes *rest) {
  uint32_t n = cocache_len(prefix);
  if (key.len < n || memcmp(key.ptr, prefix, n) != 0) return 0;
  *rest = (cocache_bytes){key.ptr + n, key.len - n};
  return 1;
}

static uint32_t number(cocache_bytes digits) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < digits.len; i++) n = n * 10 + (digits.ptr[i] - '0');
  return n;
}

static void text(cocache_answer *a, const char *s) { cocache_value(a, s, cocache_len(s)); }

static void decimal(cocache_answer *a, uint64_t n) {
  static uint8_t digits[20];
  uint32_t i = sizeof digits;
  do digits[--i] = '0' + n % 10;
  while (n /= 10);
  cocache_value(a, digits + i, sizeof digits - i);
}

static void size(cocache_answer *a, uint32_t n) {
  uint8_t *p = cocache_new(n);
  if (!p) __builtin_trap();
  for (uint32_t i = 0; i < n; i++) p[i] = i % 251;
  cocache_value(a, p, n);
}

static void setting(cocache_answer *a, cocache_bytes name) {
  static uint8_t buf[256];
  int32_t n = cocache_setting(name.ptr, name.len, buf, sizeof buf);
  if (n < 0) cocache_absent(a);
  else cocache_value(a, buf, n);
}

static void sleep_ms(uint32_t ms) {
  static uint64_t subscription[6], event[4];
  uint32_t events;
  subscription[2] = 1; /* the monotonic clock */
  subscription[3] = (uint64_t)ms * 1000000;
  poll_oneoff(subscription, event, 1, &events);
}

static void fetch(cocache_answer *a, cocache_bytes url) {
  static uint8_t body[65536];
  uint8_t *request = cocache_new(url.len + 6);
  __builtin_memcpy(request, "GET ", 4);
  __builtin_memcpy(request + 4, url.ptr, url.len);
  __builtin_memcpy(request + 4 + url.len, "\n\n", 2);
  int32_t handle = cocache_fetch(request, url.len + 6);
  int32_t n = handle < 0 ? handle : cocache_read(handle, body, sizeof body);
  if (n < 0) cocache_error(a, "E_FETCH", n == COCACHE_DENIED ? "denied" : "fetch failed");
  else cocache_value(a, body, n);
}

__attribute__((noinline)) static void spin(void) {
  for (volatile int i = 0;; i++) {}
}

__attribute__((noinline)) static void crash(void) { __builtin_trap(); }

static int with_rest(const cocache_request *r, cocache_answer *a) {
  cocache_bytes rest;
  if (after(r->key, "echo/", &rest)) cocache_value(a, rest.ptr, rest.len);
  else if (after(r->key, "size/", &rest)) size(a, number(rest));
  else if (after(r->key, "setting/", &rest)) setting(a, rest);
  else if (after(r->key, "fetch/", &rest)) fetch(a, rest);
  else if (after(r->key, "sleep/", &rest)) sleep_ms(number(rest)), text(a, "slept");
  else if (after(r->key, "log/", &rest)) cocache_log(COCACHE_INFO, rest.ptr, rest.len), text(a, "ok");
  else return 0;
  return 1;
}

void cocache_handle(const cocache_request *r, cocache_answer *a) {
  cocache_bytes key = r->key;
  if (with_rest(r, a)) return;
  text(a, "x");
  if (is(key, "empty")) a->body.len = 0;
  else if (is(key, "absent")) cocache_absent(a);
  else if (is(key, "absent-ttl")) cocache_absent(a), a->ttl_ms = 7000;
  else if (r->batch && is(key, "leave-out")) cocache_absent(a);
  else if (is(key, "retry")) cocache_retry(a, "try later", 3000);
  else if (is(key, "error")) cocache_error(a, "E_LUCK", "no such luck");
  else if (is(key, "ttl")) a->ttl_ms = 300000;
  else if (is(key, "ttl-forever")) a->ttl_ms = COCACHE_TTL_FOREVER;
  else if (is(key, "ttl-zero")) a->ttl_ms = 0;
  else if (is(key, "version")) a->version = ~(uint64_t)0;
  else if (is(key, "no-store")) a->status = COCACHE_NO_STORE;
  else if (is(key, "background")) text(a, r->background ? "true" : "false");
  else if (is(key, "previous")) decimal(a, r->previous);
  else if (is(key, "spin")) spin();
  else if (is(key, "crash")) crash();
  else if (is(key, "nonsense")) a->status = 9;
  else if (is(key, "type")) a->content_type = cocache_text("image/png");
  else cocache_error(a, "", "no such key");
}
