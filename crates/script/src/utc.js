// Makes the local time of dates UTC, whatever time zone the host has. Evaluated after the prelude
// and before any code of a client.
(function () {
  "use strict";
  const G = globalThis;
  const Native = Date;
  const P = Native.prototype;
  const { apply, construct } = Reflect;
  const hidden = (object, name, value) =>
    Object.defineProperty(object, name, { value, writable: true, configurable: true });
  const named = (name, length, f) => {
    Object.defineProperty(f, "name", { value: name });
    Object.defineProperty(f, "length", { value: length });
    return f;
  };
  const method = (name, length, f) => hidden(P, name, named(name, length, f));

  // The engine's own methods for UTC replace those for local time.
  for (const part of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds",
    "Milliseconds"]) {
    for (const verb of ["get", "set"]) {
      const utc = P[`${verb}UTC${part}`];
      if (utc === undefined) continue;
      method(verb + part, utc.length, function (...args) { return apply(utc, this, args); });
    }
  }
  const { getTime, getUTCFullYear, setUTCFullYear, toUTCString } = P;
  const { getUTCMonth, getUTCDate, getUTCHours, getUTCMinutes, getUTCSeconds } = P;
  method("getYear", 0, function () { return apply(getUTCFullYear, this, []) - 1900; });
  method("setYear", 1, function (year) {
    const y = +year;
    const whole = Math.trunc(y);
    return apply(setUTCFullYear, this, [whole >= 0 && whole <= 99 ? whole + 1900 : y]);
  });
  method("getTimezoneOffset", 0, function () { return apply(getTime, this, []) * 0; });

  // Texts in the engine's formats.
  const INVALID = "Invalid Date";
  const text = (make) => function () {
    return Number.isNaN(apply(getTime, this, [])) ? INVALID : make(this);
  };
  const two = (n) => (n < 10 ? `0${n}` : `${n}`);
  const words = (date) => apply(toUTCString, date, []).replace(",", "").split(" ");
  const day = (date) => {
    const [week, number, month, year] = words(date);
    return `${week} ${month} ${number} ${year}`;
  };
  const time = (date) => `${words(date)[4]} GMT+0000`;
  const localDay = (date) => [
    two(apply(getUTCMonth, date, []) + 1),
    two(apply(getUTCDate, date, [])),
    String(apply(getUTCFullYear, date, [])).padStart(4, "0"),
  ].join("/");
  const localTime = (date) => {
    const hours = apply(getUTCHours, date, []);
    const parts = [
      two(hours % 12 || 12),
      two(apply(getUTCMinutes, date, [])),
      two(apply(getUTCSeconds, date, [])),
    ];
    return `${parts.join(":")} ${hours < 12 ? "AM" : "PM"}`;
  };
  method("toString", 0, text((date) => `${day(date)} ${time(date)}`));
  method("toDateString", 0, text(day));
  method("toTimeString", 0, text(time));
  method("toLocaleString", 0, text((date) => `${localDay(date)}, ${localTime(date)}`));
  method("toLocaleDateString", 0, text(localDay));
  method("toLocaleTimeString", 0, text(localTime));

  // A text without a zone means local time.
  const ZONE = /(?:z|gmt|utc?|[+-]\d{2}:?\d{2})\s*(?:\([^)]*\))?\s*$/i;
  const { parse: nativeParse, UTC: utcOf } = Native;
  const parse = (given) => {
    const s = String(given);
    if (ZONE.test(s)) return nativeParse(s);
    const as = nativeParse(`${s}Z`);
    return Number.isNaN(as) ? nativeParse(`${s} GMT`) : as;
  };
  const Utc = named("Date", 7, function (...args) {
    if (new.target === undefined) return new Native().toString();
    if (args.length > 1) return construct(Native, [utcOf(...args)], new.target);
    if (typeof args[0] === "string") return construct(Native, [parse(args[0])], new.target);
    return construct(Native, args, new.target);
  });
  Object.defineProperty(Utc, "prototype", { value: P, writable: false });
  hidden(P, "constructor", Utc);
  hidden(Utc, "UTC", utcOf);
  hidden(Utc, "now", Native.now);
  hidden(Utc, "parse", named("parse", 1, parse));
  hidden(G, "Date", Utc);
});
