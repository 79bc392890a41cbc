// Numbers, times and names as people read them.

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** What stands where something has yet to come from the server. */
export const LOADING = "loading …";

const OLD = 0.25; // of a run's steps, after which an evaluation says little of the present weights

/** Whether the last evaluation of a run is of weights that have learnt much since. */
export const isOld = (run) => run.evaluated_step !== null && run.step - run.evaluated_step > OLD * run.step;

/** The return of the last evaluation; that of training without one, or where it is old. */
export const score = (run) => (isOld(run) ? run.return : null) ?? run.evaluated ?? run.return;

/** "seeds", or "runs" where several have the same seed. */
export const seedsOrRuns = (runs) => (new Set(runs.map((run) => run.seed)).size === runs.length ? "seeds" : "runs");

/** The marks of an axis, each with as many digits as tell it from the others; `write(value, digits)` writes one. */
export function marks(values, write) {
  const plain = values.map((value) => write(value));
  if (new Set(plain).size === plain.length) return plain;
  const told = (digits) => values.map((value) => write(value, digits));
  let digits = 2;
  while (digits < MOST_DIGITS && new Set(told(digits)).size < values.length) digits++;
  return told(digits + 1); // one more, as marks at 0.25 and 0.5 differ by their first digit
}

const MOST_DIGITS = 16;
const exact = (value, digits) => sign(value.toLocaleString("en", { maximumSignificantDigits: digits }));

/** A number in few characters, or with so many digits: 3,912 · 0.41 · 2.1e-5. */
export function number(value, digits = null) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "not a number";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (digits) return size >= 1e9 || (size && size < 1e-3) ? sign(value.toExponential(digits - 1).replace("e+", "e")) : exact(value, digits);
  if (size >= 1e9) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return sign(plain.format(value));
  if (size === 0 || size >= 1e-3) return sign(String(Number(value.toPrecision(size >= 100 ? 4 : 3))));
  return sign(value.toExponential(1));
}

/** A count with a unit of thousands: 620 k · 1.2 M. */
export function count(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (Math.abs(value) >= size) return exact(value / size, digits) + unit;
  }
  return exact(value, digits);
}

const sign = (text) => text.replace(/^-/, "−");

/** A time span: 45 s · 2 min 14 s · 4 h 38 min; in seconds with so many digits. */
export function duration(seconds, digits = null) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (digits) return `${exact(seconds, digits)} s`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A moment, given in seconds since 1970: 14:02 today, else with the date. */
export function moment(unix) {
  if (!unix) return "–";
  const then = new Date(unix * 1000);
  const same = then.toDateString() === new Date().toDateString();
  return same ? clock.format(then) : `${day.format(then)}, ${clock.format(then)}`;
}

/** Bytes: 443 MiB. */
export function bytes(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= size) return `${Number((value / size).toPrecision(digits))} ${unit}`;
  }
  return `${value} B`;
}

/** A share: 31 %. */
export const percent = (value) => (Number.isFinite(value) ? `${Math.round(100 * value)} %` : "–");

/** The name of a column as a title: approx_kl → Approx kl. */
export function title(name) {
  const words = name.replace(/[_/]+/g, " ").replace(/\bkl\b/g, "KL").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The value of a setting, as a person would write it. */
export function setting(value) {
  if (value === undefined) return "";
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : String(value);
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}

/** A number that was drawn at random, with as many digits as one reads; any other value as it is. */
export const short = (value, digits = 4) =>
  (typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(digits)) : value);

/** The last folder of a path. */
export const lastPart = (path) => path.split("/").at(-1);

/** The task without its version. */
export const shortTask = (task) => task.replace(/-v\d+$/, "");
