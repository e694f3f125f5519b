// The environment of a script besides the language: BSON types as in MongoDB's shell, and the
// shell's helper functions. Evaluated once for each operation, before any code of a client, so that
// nothing a script changes is used here. Its value is the object whose functions the converters
// call.
(function (native) {
  "use strict";
  const G = globalThis;
  const { defineProperty, getPrototypeOf, keys, entries } = Object;
  const isArray = Array.isArray;
  const objectPrototype = Object.prototype;
  const mapGet = Map.prototype.get;
  const getTime = Date.prototype.getTime;
  const wellFormed = String.prototype.toWellFormed;
  const sourceOf = Function.prototype.toString;
  const call = Function.prototype.call.bind(Function.prototype.call);
  const hidden = (object, name, value) =>
    defineProperty(object, name, { value, writable: true, configurable: true });
  const VALUE = Symbol("value");
  const kinds = new Map();

  for (const name of ["Atomics", "SharedArrayBuffer"]) delete G[name];

  // The engine checks the interrupt while it runs code, but not inside these built-in functions.
  // Their time depends on a length, which may be large even if no memory is used.
  const LENGTH_MAX = 1 << 24;
  const { apply } = Reflect;
  const bounded = (x) => {
    const length = x === null || x === undefined ? 0 : x.length;
    if (length > LENGTH_MAX) throw new RangeError(`too long: ${length}`);
    return length;
  };
  const replace = (object, name, make) => {
    const { value } = Object.getOwnPropertyDescriptor(object, name);
    const made = make(value);
    defineProperty(made, "name", { value: value.name });
    defineProperty(made, "length", { value: value.length });
    hidden(object, name, made);
  };
  const { prototype: A } = Array;
  for (const name of ["copyWithin", "fill", "join", "reverse", "shift", "slice", "sort", "splice",
    "toLocaleString", "toReversed", "toSorted", "toSpliced", "unshift", "with"]) {
    replace(A, name, (f) => function (...args) { bounded(this); return apply(f, this, args); });
  }
  replace(A, "concat", (f) => function (...args) {
    bounded(this);
    for (let i = 0; i < args.length; i++) {
      if (typeof args[i] === "object") bounded(args[i]);
    }
    return apply(f, this, args);
  });
  const flatten = (out, from, depth) => {
    const length = bounded(from);
    for (let i = 0; i < length; i++) {
      if (!(i in from)) continue;
      if (depth > 0 && isArray(from[i])) flatten(out, from[i], depth - 1);
      else out.push(from[i]);
    }
    return out;
  };
  replace(A, "flat", () => function (depth = 1) { return flatten([], this, +depth || 0); });
  replace(A, "flatMap", () => function (f, self) {
    return flatten([], apply(A.map, this, [f, self]), 1);
  });
  replace(String, "raw", (f) => (strings, ...args) => {
    bounded(strings.raw);
    return apply(f, String, [strings, ...args]);
  });

  // A search compares at each position: its time is the product of both lengths.
  const SEARCH_MAX = 2 ** 32;
  for (const name of ["includes", "indexOf", "lastIndexOf", "replace", "replaceAll", "split"]) {
    replace(String.prototype, name, (f) => function (what, ...args) {
      if (what instanceof RegExp || this === null || this === undefined) {
        return apply(f, this, [what, ...args]);
      }
      const [here, sought] = [String(this), String(what)];
      if (here.length * sought.length > SEARCH_MAX) throw new RangeError("too long to search");
      return apply(f, here, [what === undefined ? what : sought, ...args]);
    });
  }

  // Defines a type with a number by which converters recognize it. `make` returns the stored value.
  function type(kind, name, make, methods) {
    const T = {
      [name]: function (...args) {
        if (!new.target) return new T(...args);
        hidden(this, VALUE, make.apply(this, args));
      },
    }[name];
    for (const method of keys(methods)) hidden(T.prototype, method, methods[method]);
    kinds.set(T.prototype, kind);
    hidden(G, name, T);
    return T;
  }

  const exactly = (big) => {
    const n = Number(big);
    return Number.isSafeInteger(n) ? `${n}` : `"${big}"`;
  };
  const big = (x) => {
    if (typeof x === "bigint") return x;
    if (x instanceof Long || x instanceof Int) return BigInt(x[VALUE]);
    if (typeof x === "string") {
      if (!/^\s*[+-]?\d+\s*$/.test(x)) throw new Error(`could not convert "${x}" to NumberLong`);
      return BigInt(x.trim());
    }
    const n = Math.trunc(Number(x));
    if (Number.isNaN(n)) return 0n;
    if (n >= 9223372036854775807) return 9223372036854775807n;
    if (n <= -9223372036854775808) return -9223372036854775808n;
    return BigInt(n);
  };

  const Long = type(2, "NumberLong", function (x, top, bottom) {
    let v = x === undefined ? 0n : big(x);
    if (top !== undefined && bottom !== undefined) {
      v = (BigInt(top >>> 0) << 32n) | BigInt(bottom >>> 0);
    }
    if (v !== BigInt.asIntN(64, v) && top === undefined) {
      throw new Error(`could not convert "${x}" to NumberLong`);
    }
    return BigInt.asIntN(64, v);
  }, {
    toNumber() { return Number(this[VALUE]); },
    valueOf() { return Number(this[VALUE]); },
    toString() { return `NumberLong(${exactly(this[VALUE])})`; },
    toJSON() { return { $numberLong: `${this[VALUE]}` }; },
    compare(other) {
      const [a, b] = [this[VALUE], big(other)];
      return a < b ? -1 : a > b ? 1 : 0;
    },
  });

  const Int = type(3, "NumberInt", (x) => Number(big(x === undefined ? 0 : x)) | 0, {
    toNumber() { return this[VALUE]; },
    valueOf() { return this[VALUE]; },
    toString() { return `NumberInt(${this[VALUE]})`; },
    toJSON() { return this[VALUE]; },
  });

  const Decimal = type(4, "NumberDecimal", (x) => {
    if (x instanceof Decimal || x instanceof Long || x instanceof Int) x = x[VALUE];
    return native.decimal(x === undefined ? "0" : String(x));
  }, {
    toString() { return `NumberDecimal("${this[VALUE]}")`; },
    toJSON() { return { $numberDecimal: this[VALUE] }; },
  });

  const two = (n) => (n < 16 ? "0" : "") + n.toString(16);
  const Oid = type(5, "ObjectId", function (hex) {
    if (hex === undefined) {
      hex = Math.floor(Date.now() / 1000).toString(16).padStart(8, "0");
      while (hex.length < 24) hex += two(Math.floor(Math.random() * 256));
    }
    hex = hex instanceof Oid ? hex.str : String(hex).toLowerCase();
    if (!/^[0-9a-f]{24}$/.test(hex)) throw new Error(`invalid object id: length or digits: ${hex}`);
    defineProperty(this, "str", { value: hex });
    return hex;
  }, {
    toString() { return `ObjectId("${this[VALUE]}")`; },
    valueOf() { return this[VALUE]; },
    toJSON() { return { $oid: this[VALUE] }; },
    getTimestamp() { return new Date(parseInt(this[VALUE].slice(0, 8), 16) * 1000); },
    equals(other) { return other instanceof Oid && other[VALUE] === this[VALUE]; },
  });

  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const fromHex = (hex) => {
    if (hex.length % 2 || /[^0-9a-fA-F]/.test(hex)) throw new Error(`not hexadecimal: ${hex}`);
    const bytes = [];
    for (let i = 0; i < hex.length; i += 2) bytes.push(parseInt(hex.substr(i, 2), 16));
    return bytes;
  };
  const toBase64 = (bytes) => {
    let out = "";
    for (let i = 0; i < bytes.length; i += 3) {
      const n = (bytes[i] << 16) | ((bytes[i + 1] || 0) << 8) | (bytes[i + 2] || 0);
      out += ALPHABET[n >> 18] + ALPHABET[(n >> 12) & 63];
      out += i + 1 < bytes.length ? ALPHABET[(n >> 6) & 63] : "=";
      out += i + 2 < bytes.length ? ALPHABET[n & 63] : "=";
    }
    return out;
  };
  const fromBase64 = (text) => {
    const bytes = [];
    let bits = 0;
    let n = 0;
    for (const c of text.replace(/=+$/, "")) {
      n = ((n << 6) | ALPHABET.indexOf(c)) & 0xffff;
      bits += 6;
      if (bits >= 8) bytes.push((n >> (bits -= 8)) & 255);
    }
    return bytes;
  };
  const hexOf = (b) => fromBase64(b[VALUE]).map(two).join("");
  const dashed = (hex) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

  const Bin = type(6, "BinData", function (subtype, text) {
    if (!(subtype >= 0 && subtype <= 255)) throw new Error("BinData subtype must be 0 to 255");
    text = String(text);
    if (text.length % 4 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
      throw new Error("BinData needs base64");
    }
    hidden(this, "type", subtype | 0);
    return text;
  }, {
    subtype() { return this.type; },
    length() { return fromBase64(this[VALUE]).length; },
    base64() { return this[VALUE]; },
    hex() { return hexOf(this); },
    toString() {
      const hex = this.type === 3 || this.type === 4 ? hexOf(this) : "";
      if (hex.length === 32) return `UUID("${dashed(hex)}")`;
      return `BinData(${this.type},"${this[VALUE]}")`;
    },
    toJSON() { return { $binary: this[VALUE], $type: two(this.type) }; },
  });
  hidden(G, "HexData", (subtype, hex) => new Bin(subtype, toBase64(fromHex(String(hex)))));
  hidden(G, "MD5", (hex) => G.HexData(5, hex));
  hidden(G, "UUID", (hex) => {
    let digits;
    if (hex === undefined) {
      const bytes = Array.from({ length: 16 }, () => Math.floor(Math.random() * 256));
      bytes[6] = (bytes[6] & 15) | 64;
      bytes[8] = (bytes[8] & 63) | 128;
      digits = bytes.map(two).join("");
    } else {
      digits = String(hex).replace(/-/g, "");
    }
    if (digits.length !== 32) throw new Error("UUID string must have 32 hexadecimal digits");
    return new Bin(4, toBase64(fromHex(digits)));
  });

  const Ts = type(7, "Timestamp", function (t, i) {
    const part = (n, what) => {
      n = Number(n === undefined ? 0 : n);
      if (!(n >= 0 && n <= 4294967295)) throw new Error(`${what} must be in range [0, 4294967295]`);
      return Math.trunc(n);
    };
    this.t = part(t, "Timestamp time");
    this.i = part(i, "Timestamp increment");
  }, {
    toString() { return `Timestamp(${this.t}, ${this.i})`; },
    getTime() { return this.t; },
    getInc() { return this.i; },
    toJSON() { return { $timestamp: { t: this.t, i: this.i } }; },
  });

  const single = (kind, name) => {
    const T = type(kind, name, () => undefined, {
      toString() { return `{ "$${name[0].toLowerCase()}${name.slice(1)}" : 1 }`; },
      toJSON() { return { [`$${name[0].toLowerCase()}${name.slice(1)}`]: 1 }; },
    });
    // Used as a value, the name stands for an instance.
    kinds.set(T, kind);
    return new T();
  };
  const MIN = single(8, "MinKey");
  const MAX = single(9, "MaxKey");

  const Code = type(10, "Code", function (code, scope) {
    this.code = String(code === undefined ? "" : code);
    if (scope !== undefined) this.scope = scope;
  }, {
    toString() { return `Code(${JSON.stringify(this.code)})`; },
  });
  const Pointer = type(11, "DBPointer", function (ns, id) {
    this.ns = String(ns);
    this.id = id instanceof Oid ? id : new Oid(id);
  }, {
    toString() { return `DBPointer("${this.ns}", ${this.id})`; },
  });
  hidden(G, "DBRef", function DBRef(ref, id, db) {
    const out = new.target ? this : {};
    out.$ref = ref;
    out.$id = id;
    if (db !== undefined) out.$db = db;
    return out;
  });
  kinds.set(Date.prototype, 12);
  kinds.set(RegExp.prototype, 13);
  kinds.set(Number.prototype, 14);
  kinds.set(String.prototype, 14);
  kinds.set(Boolean.prototype, 14);

  function kindOf(x) {
    const own = typeof x === "function" ? call(mapGet, kinds, x) : undefined;
    if (own !== undefined) return own;
    const p = getPrototypeOf(x);
    if (p === objectPrototype || p === null) return 0;
    return call(mapGet, kinds, p) || 0;
  }

  // --- helpers of the shell

  const pad = (n, width) => String(n).padStart(width, "0");
  const isoDate = (d) => {
    const ms = d.getTime();
    if (Number.isNaN(ms)) return "ISODate(NaN)";
    const y = d.getUTCFullYear();
    if (y < 0 || y > 9999) return `new Date(${ms})`;
    const rest = d.getUTCMilliseconds() ? `.${pad(d.getUTCMilliseconds(), 3)}` : "";
    return `ISODate("${pad(y, 4)}-${pad(d.getUTCMonth() + 1, 2)}-${pad(d.getUTCDate(), 2)}T` +
      `${pad(d.getUTCHours(), 2)}:${pad(d.getUTCMinutes(), 2)}:${pad(d.getUTCSeconds(), 2)}` +
      `${rest}Z")`;
  };
  hidden(G, "ISODate", (text) => {
    if (text === undefined) return new Date();
    const m = new RegExp("^(\\d{4,})-?(\\d{2})-?(\\d{2})" +
      "(?:[T ](\\d{2})(?::?(\\d{2})(?::?(\\d{2})(?:\\.(\\d+))?)?)?(Z|[+-]\\d{2}(?::?\\d{2})?)?)?$")
      .exec(String(text));
    if (!m) throw new Error(`invalid ISO date: ${text}`);
    const [, y, mo, d, h, mi, s, fraction, zone] = m;
    const date = new Date(0);
    date.setUTCFullYear(+y, mo - 1, +d);
    date.setUTCHours(+(h || 0), +(mi || 0), +(s || 0), Math.round(+`0.${fraction || 0}` * 1000));
    let offset = 0;
    if (zone && zone !== "Z") {
      offset = +zone.slice(1, 3) * 60 + +(zone.slice(3).replace(":", "") || 0);
      if (zone[0] === "+") offset = -offset;
    }
    return new Date(date.getTime() + offset * 60000);
  });

  function tojson(x, indent = "", nolint = false, depth = 0) {
    if (depth > 150) throw new Error("tojson: nested too deep, is there a cycle?");
    switch (typeof x) {
      case "string": return JSON.stringify(x);
      case "number": return Object.is(x, -0) ? "-0" : String(x);
      case "bigint": case "boolean": return String(x);
      case "undefined": return "undefined";
      case "function": return kindOf(x) ? "{ \"$" + x.name[0].toLowerCase() + x.name.slice(1) +
        "\" : 1 }" : x.toString();
      case "symbol": return x.toString();
    }
    if (x === null) return "null";
    if (x instanceof Date) return isoDate(x);
    if (x instanceof RegExp) return x.toString();
    if (isArray(x)) {
      if (!x.length) return nolint ? "[ ]" : "[ ]";
      const inner = x.map((v) => tojson(v, `${indent}\t`, nolint, depth + 1));
      if (nolint) return `[ ${inner.join(", ")} ]`;
      return `[\n${inner.map((v) => `${indent}\t${v}`).join(",\n")}\n${indent}]`;
    }
    if (kindOf(x)) return x.toString();
    if (x instanceof Error) return x.toString();
    const all = entries(x);
    if (!all.length) return "{ }";
    const inner = all.map(([k, v]) =>
      `${JSON.stringify(k)} : ${tojson(v, `${indent}\t`, nolint, depth + 1)}`);
    if (nolint) return `{ ${inner.join(", ")} }`;
    return `{\n${inner.map((v) => `${indent}\t${v}`).join(",\n")}\n${indent}}`;
  }
  hidden(G, "tojson", (x, indent, nolint) => tojson(x, indent || "", !!nolint));
  hidden(G, "tojsononeline", (x) => tojson(x, "", true));
  hidden(G, "tojsonObject", (x, indent, nolint) => tojson(x, indent || "", !!nolint));
  const shown = (x) => (typeof x === "string" ? x : tojson(x, "", true));
  hidden(G, "print", (...args) => native.print(wellFormed.call(args.map(shown).join(" "))));
  hidden(G, "printjson", (x) => G.print(tojson(x)));
  hidden(G, "printjsononeline", (x) => G.print(tojson(x, "", true)));

  hidden(G, "doassert", (message) => { throw new Error(shown(message)); });
  hidden(G, "assert", (ok, message) => {
    if (!ok) throw new Error(`assert failed${message === undefined ? "" : ` : ${shown(message)}`}`);
  });
  hidden(G, "isNumber", (x) => typeof x === "number" || x instanceof Long || x instanceof Int);
  hidden(G, "isString", (x) => typeof x === "string");
  hidden(G, "isObject", (x) => typeof x === "object");
  hidden(G, "hex_md5", (text) => native.md5(wellFormed.call(String(text))));
  hidden(G, "sleep", (ms) => native.sleep(Number(ms) || 0));
  hidden(G, "gc", () => native.gc());
  hidden(G, "version", () => native.version);
  hidden(G, "args", []);
  hidden(G, "emit", function emit(...args) { native.emit(args.length, args[0], args[1]); });

  const number = (x) => (typeof x === "object" && x !== null ? Number(x) : x);
  const sum = (a) => {
    if (!a.length) return null;
    let s = number(a[0]);
    for (let i = 1; i < a.length; i++) s += number(a[i]);
    return s;
  };
  const equal = (a, b) => a === b || (typeof a === "object" && tojson(a) === tojson(b));
  for (const [name, f] of entries({
    sum,
    avg: (a) => (a.length ? sum(a) / a.length : null),
    stdDev: (a) => {
      const mean = sum(a) / a.length;
      return Math.sqrt(sum(a.map((x) => (x - mean) ** 2)) / a.length);
    },
    contains: (a, x) => a.some((y) => equal(x, y)),
    unique: (a) => a.filter((x, i) => !a.slice(0, i).some((y) => equal(x, y))),
    shuffle: (a) => {
      for (let i = a.length - 1; i > 0; i--) {
        const j = Math.floor(Math.random() * (i + 1));
        [a[i], a[j]] = [a[j], a[i]];
      }
      return a;
    },
    tojson: (a, indent, nolint) => tojson(a, indent || "", !!nolint),
  })) hidden(Array, name, f);
  hidden(Object, "extend", (to, from) => {
    for (const [k, v] of entries(from)) to[k] = v;
    return to;
  });
  hidden(Object, "merge", (to, from) => ({ ...to, ...from }));
  hidden(Object, "keySet", (x) => { const out = []; for (const k in x) out.push(k); return out; });
  hidden(String.prototype, "ltrim", function () { return this.trimStart(); });
  hidden(String.prototype, "rtrim", function () { return this.trimEnd(); });
  hidden(Number.prototype, "zeroPad", function (width) { return pad(this, width); });

  // --- what the converters call

  return {
    kindOf,
    // The value of an instance in a simple form.
    simple(x, kind) {
      switch (kind) {
        case 6: return `${x.type},${x[VALUE]}`;
        case 7: return `${x.t},${x.i}`;
        case 10: return x.code;
        case 11: return `${x.id[VALUE]}${x.ns}`;
        case 12: return call(getTime, x);
        // As it was written, without the escape that only a literal needs.
        case 13: return `${x.flags}/${x.source.replace(/\\\//g, "/")}`;
        case 14: return x.valueOf();
        default: return x[VALUE];
      }
    },
    long: (x) => new Long(x),
    decimal: (x) => new Decimal(x),
    oid: (x) => new Oid(x),
    bin: (subtype, x) => new Bin(subtype, x),
    timestamp: (t, i) => new Ts(t, i),
    date: (ms) => new Date(ms),
    regex(pattern, flags) {
      try {
        return new RegExp(pattern, flags);
      } catch (e) {
        return new RegExp(pattern.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
      }
    },
    code: (code, scope) => new Code(code, scope),
    pointer: (ns, id) => new Pointer(ns, id),
    min: MIN,
    max: MAX,
    wellFormed: (s) => call(wellFormed, s),
    sourceOf: (f) => call(sourceOf, f),
    // A thrown value as a message.
    thrown(e) {
      if (e instanceof Error) return `${e.name}: ${e.message} :\n${e.stack || ""}`;
      return `uncaught exception: ${shown(e)}`;
    },
    truth: (x) => !!x,
    fits: (x) => BigInt.asIntN(64, x) === x,
    fold(f, state, calls) {
      for (const args of calls) state = f(state, ...args);
      return state;
    },
  };
});
