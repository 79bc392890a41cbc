// What is drawn as one line: a run, or several that differ in their seed alone, with their mean and how sure it is.

import { valuesOf } from "./filter.js";
import { lastPart, seedsOrRuns, setting, short, shortTask } from "./words.js";

export const COLOURS = 16;
const GRID = 250; // places at which a mean is taken
const RESAMPLES = 400;
const TOLD = 2; // settings in a label
export const SWEPT = 4; // settings in the label of a sweep's trial
const IGNORED = new Set(["seed"]);

/** The lines of some runs: [{key, runs: [summary …], slot}]; joined, those with equal settings or, with `by`, an equal one. */
export function linesOf(runs, joined, slots, by) { // `slots` keeps the colour that a line once had
  const groups = new Map();
  for (const run of runs) {
    for (const value of joined && by ? valuesOf(run, by) : [null]) { // a run of several tags is in the line of each
      const key = !joined ? run.id : by ? `${run.task} ${by} ${JSON.stringify(value ?? null)}` : run.group;
      if (!groups.has(key)) groups.set(key, { key, by: joined ? by : "", value, runs: [] });
      groups.get(key).runs.push(run);
    }
  }
  const lines = [...groups.values()];
  const keys = new Set(lines.map((line) => line.key));
  for (const key of slots.keys()) if (!keys.has(key)) slots.delete(key);
  for (const line of lines) {
    if (!slots.has(line.key)) slots.set(line.key, free(new Set(slots.values())));
    line.slot = slots.get(line.key);
    line.colour = `k${line.slot % COLOURS}`;
    line.dash = DASHES[Math.floor(line.slot / COLOURS) % DASHES.length];
  }
  const differing = differences(lines);
  for (const line of lines) line.label = label(line, lines, differing);
  tellApart(lines);
  return lines;
}

/** Adds to labels that several lines have the settings in which these differ, at most `most`, or else a folder's name. */
export function tellApart(lines, most = TOLD) {
  addWords(lines, (twins, line) => settingsOf(line, differences(twins).slice(0, most)));
  addWords(lines, (_, line) => (line.runs.length === 1 ? line.runs[0].name : ""));
}

function addWords(lines, words) {
  const alike = new Map();
  for (const line of lines) alike.set(line.label, [...(alike.get(line.label) ?? []), line]);
  for (const twins of alike.values()) {
    if (twins.length > 1) for (const line of twins) line.label = [line.label, words(twins, line)].filter(Boolean).join(" · ");
  }
}

const settingsOf = (line, names) => names.map((name) => `${name} ${setting(short(line.runs[0].config[name] ?? null))}`).join(" · ");

const DASHES = [undefined, [6, 4], [2, 3], [10, 3, 2, 3]];

function free(taken) {
  let slot = 0;
  while (taken.has(slot)) slot++;
  return slot;
}

/** The names of settings in which lines differ, but for the seed; first those that have the most values. */
export function differences(lines) {
  const names = new Set(lines.flatMap((line) => Object.keys(line.runs[0].config)));
  const values = (name) => new Set(lines.map((line) => JSON.stringify(line.runs[0].config[name]))).size;
  const found = [...names].map((name) => [name, values(name)]).filter(([name, size]) => !IGNORED.has(name) && size > 1);
  return found.sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** The name that the user gave to runs, if all have the same one. */
export const nameOf = (runs) => (runs.every((run) => run.notes.name === runs[0].notes.name) ? runs[0].notes.name : "");

/** The value of a setting with the setting's name. */
export const told = (name, value) => `${name} ${setting(short(value ?? undefined)) || "none"}`;

/** The lines of each task: [{task, lines}], in the order in which they come. */
export function byTask(lines) {
  const tasks = new Map();
  for (const line of lines) tasks.set(line.runs[0].task, [...(tasks.get(line.runs[0].task) ?? []), line]);
  return [...tasks].map(([task, some]) => ({ task, lines: some }));
}

/** What tells a line from the others. */
function label(line, lines, differing) {
  const [run] = line.runs;
  const seeds = line.runs.length > 1 ? `${line.runs.length} ${seedsOrRuns(line.runs)}` : `seed ${run.seed ?? "?"}`;
  if (line.by) {
    const task = line.by !== "task" && differing.includes("task") ? shortTask(run.task) : "";
    return [task, told(line.by, line.value), `${line.runs.length} ${line.runs.length > 1 ? "runs" : "run"}`].filter(Boolean).join(" · ");
  }
  if (nameOf(line.runs)) return nameOf(line.runs);
  if (!run.task) return run.name;
  const trials = run.sweep ? lines.filter((each) => each.runs[0].sweep === run.sweep) : [];
  if (trials.length > 1) {
    const name = lastPart(run.name);
    if (trials.length === lines.length) line.name = name; // where the settings stand beside it
    return [name, settingsOf(line, differences(trials).slice(0, SWEPT))].filter(Boolean).join(" · ");
  }
  if (lines.length === 1) return `${run.task} ${run.algo} · ${seeds}`;
  const words = [];
  if (differing.includes("task")) words.push(shortTask(run.task));
  if (differing.includes("algo")) words.push(run.algo);
  if (!words.length && differing.length) words.push(settingsOf(line, differing.slice(0, TOLD)));
  return [...words, seeds].join(" · ");
}

/** The mean of several curves over the part that all of them have, and a 95 % interval of it: {x, y, low, high}. */
export function mean(curves) {
  const known = curves.filter(({ x }) => x.length > 1);
  if (known.length < 2) return { ...(known[0] ?? { x: [], y: [] }), low: null, high: null };
  const from = Math.max(...known.map(({ x }) => x[0]));
  const to = Math.min(...known.map(({ x }) => x[x.length - 1]));
  if (!(to > from)) return { x: [], y: [], low: null, high: null };
  const x = Array.from({ length: GRID }, (_, i) => from + ((to - from) * i) / (GRID - 1));
  const values = known.map((curve) => interpolated(curve, x));
  const draws = resamples(known.length);
  const [y, low, high] = [[], [], []];
  const means = new Float64Array(draws.length);
  for (let i = 0; i < GRID; i++) {
    y.push(values.reduce((sum, curve) => sum + curve[i], 0) / values.length);
    draws.forEach((draw, n) => {
      let sum = 0;
      for (const curve of draw) sum += values[curve][i];
      means[n] = sum / draw.length;
    });
    means.sort();
    low.push(means[Math.floor(0.025 * (means.length - 1))]);
    high.push(means[Math.ceil(0.975 * (means.length - 1))]);
  }
  return { x, y, low, high };
}

function interpolated({ x, y }, places) {
  let i = 0;
  return places.map((place) => {
    while (i < x.length - 2 && x[i + 1] < place) i++;
    const part = Math.min(1, Math.max(0, (place - x[i]) / (x[i + 1] - x[i])));
    return y[i] + part * (y[i + 1] - y[i]);
  });
}

const drawn = new Map();

/** Which curves each of many means is taken of, drawn with replacement: the bootstrap, and the same every time. */
function resamples(number) {
  if (!drawn.has(number)) {
    let state = 12345;
    const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
    const draw = () => Array.from({ length: number }, () => Math.floor(random() * number));
    drawn.set(number, Array.from({ length: RESAMPLES }, draw));
  }
  return drawn.get(number);
}
