// The metrics that the page has: columns of each chosen run, and the same as points against an axis.

/** What charts may be drawn against: name → the columns that hold it, and how to write it. */
export const AXES = {
  step: { columns: ["step"], evaluated: "evaluation/step", label: "steps" },
  seconds: { columns: ["time/seconds"], evaluated: "time/seconds", label: "seconds" },
  updates: { columns: ["updates", "iteration"], evaluated: "updates", label: "updates" },
};

const NONE = { x: [], y: [] };

export class Data {
  constructor() {
    this.series = new Map(); // run → name → numbers
    this.parts = new Set(); // runs of which only a part of the axis is here
    this.evaluated = new Map();
    this.told = new Map(); // run → details
    this.kept = new Map(); // points that were made, by run
    this.sweeps = new Map(); // sweep → its summary
  }

  /** Takes a message in; returns whether it was one with data. */
  take(message) {
    const { kind, run } = message;
    if (kind === "sweep") {
      this.sweeps.set(message.sweep, message);
      return true;
    }
    if (kind === "series") {
      this.series.set(run, message.columns);
      if (message.whole) this.parts.delete(run);
      else this.parts.add(run);
    } else if (kind === "more") this.append(run, message.columns);
    else if (kind === "evaluations") this.evaluated.set(run, message.columns);
    else if (kind === "details") this.told.set(run, message);
    else return false;
    this.kept.delete(run);
    return true;
  }

  append(run, more) {
    const columns = this.series.get(run) ?? new Map();
    const before = columns.values().next().value?.length ?? 0;
    const added = more.values().next().value?.length ?? 0;
    for (const name of new Set([...columns.keys(), ...more.keys()])) {
      const all = new Float64Array(before + added).fill(NaN);
      if (columns.has(name)) all.set(columns.get(name));
      if (more.has(name)) all.set(more.get(name), before);
      columns.set(name, all);
    }
    this.series.set(run, columns);
  }

  /** Forgets runs that are not among these. */
  keepOnly(runs) {
    for (const known of [this.series, this.parts, this.evaluated, this.told, this.kept]) {
      for (const run of known.keys()) if (!runs.includes(run)) known.delete(run);
    }
  }

  columns(run) {
    return this.series.get(run) ?? new Map();
  }

  details(run) {
    return this.told.get(run) ?? { loading: true, events: [], episodes: [], problem: "" };
  }

  /** A column against an axis: {x, y} without what is missing. */
  points(run, name, axis) {
    const key = `${axis} ${name}`;
    if (!this.kept.has(run)) this.kept.set(run, new Map());
    const kept = this.kept.get(run);
    if (!kept.has(key)) {
      const columns = this.columns(run);
      const along = AXES[axis].columns.find((each) => columns.has(each));
      kept.set(key, along === undefined ? NONE : pairs(columns.get(along), columns.get(name)));
    }
    return kept.get(key);
  }

  /** The evaluations of a run against an axis. */
  evaluations(run, axis) {
    const columns = this.evaluated.get(run);
    if (!columns) return NONE;
    const { evaluated, columns: others } = AXES[axis];
    const along = [evaluated, ...others].find((each) => columns.has(each));
    return along === undefined ? NONE : pairs(columns.get(along), columns.get("evaluation/return"));
  }
}

function pairs(along, column) {
  if (!along || !column) return NONE;
  const x = [];
  const y = [];
  for (let row = 0; row < along.length; row++) {
    if (!Number.isFinite(along[row]) || !Number.isFinite(column[row])) continue;
    if (x.length && along[row] <= x[x.length - 1]) { // the same moment again: the newer counts
      if (along[row] === x[x.length - 1]) y[y.length - 1] = column[row];
      continue;
    }
    x.push(along[row]);
    y.push(column[row]);
  }
  return { x, y };
}

/** How fast a cumulative column grows, a second: {x, y} against an axis. A run begins at 0. */
export function growth(data, run, name, axis) {
  const columns = data.columns(run);
  const along = AXES[axis].columns.map((each) => columns.get(each)).find(Boolean);
  const [column, seconds] = [columns.get(name), columns.get("time/seconds")];
  if (!along || !column || !seconds) return NONE;
  const x = [];
  const y = [];
  let last = data.parts.has(run) ? null : [0, 0];
  for (let row = 0; row < column.length; row++) {
    if (!Number.isFinite(column[row]) || !Number.isFinite(seconds[row])) continue;
    const passed = last ? seconds[row] - last[0] : 0;
    if (passed > 0) {
      x.push(along[row]);
      y.push((column[row] - last[1]) / passed);
    }
    if (!last || passed > 0) last = [seconds[row], column[row]];
  }
  return { x, y };
}
