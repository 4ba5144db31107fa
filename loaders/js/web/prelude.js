// The part of the web platform that scripts find beside the language. It is
// run once per call, before the script, with the functions of natives.go.
(function (native, global) {
  "use strict";

  function define(name, value) {
    Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  }

  // Making a class costs more than most scripts do: each group is made when one
  // of its names is first read.
  function defineLater(names, make) {
    for (const name of names) {
      Object.defineProperty(global, name, {
        get() {
          const made = make();
          for (const n of names) {
            if (Object.getOwnPropertyDescriptor(global, n)?.get !== undefined) define(n, made[n]);
          }
          return made[name];
        },
        set(value) { define(name, value); },
        configurable: true, enumerable: false,
      });
    }
  }

  defineLater(["URL", "URLSearchParams"], () => {
    class URLSearchParams {
      #pairs = [];
      #changed = null;

      constructor(init = "") {
        if (init !== null && typeof init === "object" || typeof init === "function") {
          if (init[Symbol.iterator] !== undefined) {
            for (const pair of init) {
              const [name, value, ...more] = pair;
              if (value === undefined || more.length > 0) throw new TypeError("URLSearchParams: a pair has two members");
              this.#pairs.push([String(name), String(value)]);
            }
          } else {
            for (const name of Object.keys(init)) this.#pairs.push([name, String(init[name])]);
          }
        } else {
          this.#pairs = native.parseForm(String(init).replace(/^\?/, ""));
        }
      }
      static bind(params, changed) { params.#changed = changed; }
      static refill(params, text) { params.#pairs = native.parseForm(text.replace(/^\?/, "")); }
      #update() { if (this.#changed !== null) this.#changed(this.toString()); }

      get size() { return this.#pairs.length; }
      append(name, value) { this.#pairs.push([String(name), String(value)]); this.#update(); }
      delete(name, value) {
        name = String(name);
        this.#pairs = this.#pairs.filter((p) => p[0] !== name || value !== undefined && p[1] !== String(value));
        this.#update();
      }
      get(name) {
        name = String(name);
        const found = this.#pairs.find((p) => p[0] === name);
        return found === undefined ? null : found[1];
      }
      getAll(name) {
        name = String(name);
        return this.#pairs.filter((p) => p[0] === name).map((p) => p[1]);
      }
      has(name, value) {
        name = String(name);
        return this.#pairs.some((p) => p[0] === name && (value === undefined || p[1] === String(value)));
      }
      set(name, value) {
        name = String(name);
        const at = this.#pairs.findIndex((p) => p[0] === name);
        if (at < 0) {
          this.#pairs.push([name, String(value)]);
        } else {
          this.#pairs[at] = [name, String(value)];
          this.#pairs = this.#pairs.filter((p, i) => i <= at || p[0] !== name);
        }
        this.#update();
      }
      sort() {
        this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
        this.#update();
      }
      forEach(f, self) { for (const [name, value] of this) f.call(self, value, name, this); }
      *entries() { for (let i = 0; i < this.#pairs.length; i++) yield [this.#pairs[i][0], this.#pairs[i][1]]; }
      *keys() { for (const p of this.entries()) yield p[0]; }
      *values() { for (const p of this.entries()) yield p[1]; }
      [Symbol.iterator]() { return this.entries(); }
      toString() { return native.formatForm(this.#pairs); }
      get [Symbol.toStringTag]() { return "URLSearchParams"; }
    }
    const bind = URLSearchParams.bind, refill = URLSearchParams.refill;
    delete URLSearchParams.bind;
    delete URLSearchParams.refill;

    class URL {
      #u;
      #params = null;

      constructor(url, base) { this.#u = native.parseURL(String(url), base === undefined ? "" : String(base)); }
      static canParse(url, base) {
        try { new URL(url, base); return true; } catch { return false; }
      }
      static parse(url, base) {
        try { return new URL(url, base); } catch { return null; }
      }
      #refill() { if (this.#params !== null) refill(this.#params, this.#u.search); }
      #set(part, value) {
        const u = native.setURL(this.#u.href, part, String(value));
        if (u !== null) this.#u = u;
        if (part === "search") this.#refill();
      }

      get href() { return this.#u.href; }
      set href(v) { this.#u = native.parseURL(String(v), ""); this.#refill(); }
      get origin() { return this.#u.origin; }
      get protocol() { return this.#u.protocol; }
      set protocol(v) { this.#set("protocol", v); }
      get username() { return this.#u.username; }
      set username(v) { this.#set("username", v); }
      get password() { return this.#u.password; }
      set password(v) { this.#set("password", v); }
      get host() { return this.#u.host; }
      set host(v) { this.#set("host", v); }
      get hostname() { return this.#u.hostname; }
      set hostname(v) { this.#set("hostname", v); }
      get port() { return this.#u.port; }
      set port(v) { this.#set("port", v); }
      get pathname() { return this.#u.pathname; }
      set pathname(v) { this.#set("pathname", v); }
      get search() { return this.#u.search; }
      set search(v) { this.#set("search", v); }
      get hash() { return this.#u.hash; }
      set hash(v) { this.#set("hash", v); }
      get searchParams() {
        if (this.#params === null) {
          this.#params = new URLSearchParams(this.#u.search);
          bind(this.#params, (text) => {
            const u = native.setURL(this.#u.href, "search", text);
            if (u !== null) this.#u = u;
          });
        }
        return this.#params;
      }
      toString() { return this.#u.href; }
      toJSON() { return this.#u.href; }
      get [Symbol.toStringTag]() { return "URL"; }
    }

    return { URL, URLSearchParams };
  });

  function bytesOf(source) {
    if (source === undefined) return new Uint8Array(0);
    if (source instanceof ArrayBuffer) return new Uint8Array(source);
    if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    throw new TypeError("not an ArrayBuffer and no view of one");
  }

  defineLater(["TextEncoder", "TextDecoder"], () => {
    class TextEncoder {
      get encoding() { return "utf-8"; }
      encode(text = "") { return native.encodeText(String(text)); }
      encodeInto(text, target) {
        let read = 0, written = 0;
        for (const c of String(text)) {
          const b = native.encodeText(c);
          if (written + b.length > target.length) break;
          target.set(b, written);
          written += b.length;
          read += c.length;
        }
        return { read, written };
      }
    }

    class TextDecoder {
      #fatal;
      #ignoreBOM;
      constructor(label = "utf-8", options = {}) {
        if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(String(label))) throw new RangeError("TextDecoder: only utf-8 is known");
        this.#fatal = Boolean(options.fatal);
        this.#ignoreBOM = Boolean(options.ignoreBOM);
      }
      get encoding() { return "utf-8"; }
      get fatal() { return this.#fatal; }
      get ignoreBOM() { return this.#ignoreBOM; }
      decode(source, options = {}) {
        if (options.stream) throw new TypeError("TextDecoder: streams are not known");
        return native.decodeText(bytesOf(source), this.#fatal, this.#ignoreBOM);
      }
    }

    return { TextEncoder, TextDecoder };
  });

  const crypto = Object.freeze({
    randomUUID() { return native.randomUUID(); },
    getRandomValues(array) {
      if (!ArrayBuffer.isView(array) || array instanceof DataView || array instanceof Float32Array || array instanceof Float64Array) {
        throw new TypeError("crypto.getRandomValues: not an array of integers");
      }
      if (array.byteLength > 65536) throw new RangeError("crypto.getRandomValues: more than 65536 bytes");
      native.fillRandom(bytesOf(array));
      return array;
    },
  });

  // The engine answers \p{…} wrongly, and a wrong match is worse than none.
  const BuiltinRegExp = RegExp;
  const escaped = /\\\\/g, property = /\\[pP]\{/;
  function checked(pattern) {
    if (typeof pattern === "string" && property.test(pattern.replace(escaped, ""))) {
      throw new SyntaxError("\\p{…} in a regular expression is not supported");
    }
  }
  const CheckedRegExp = new Proxy(BuiltinRegExp, {
    apply(target, self, args) { checked(args[0]); return Reflect.apply(target, self, args); },
    construct(target, args, to) {
      checked(args[0]);
      return Reflect.construct(target, args, to === CheckedRegExp ? target : to);
    },
  });
  BuiltinRegExp.prototype.constructor = CheckedRegExp;
  // The engine does not take a proxy on the right of instanceof.
  const hasInstance = Function.prototype[Symbol.hasInstance];
  Object.defineProperty(BuiltinRegExp, Symbol.hasInstance, {
    value(v) { return Reflect.apply(hasInstance, this === CheckedRegExp ? BuiltinRegExp : this, [v]); },
  });

  JSON.parse = function parse(text, reviver) { return native.parseJSON(String(text), reviver); };

  define("RegExp", CheckedRegExp);
  define("crypto", crypto);
  define("atob", function atob(text) { return native.atob(String(text)); });
  define("btoa", function btoa(text) { return native.btoa(String(text)); });
});
