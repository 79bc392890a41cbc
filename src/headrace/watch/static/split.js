// Where the time goes: the parts of a run's work, stacked over time, in seconds a second.

import { make } from "./dom.js";
import { isPart } from "./figures.js";
import { percent } from "./words.js";

const MOST = 90; // places at which the strip is drawn
const PARTS = { // in the order of the stack; what is not here goes between learning and waiting
  env: ["environments", "env"],
  inference: ["inference", "inf"],
  learning: ["learning", "learn"],
  paced: ["waiting by design", "wait"],
  waiting: ["samplers wait", "lost"],
  idle: ["learner waits", "idle"],
};
const OTHERS = ["k2", "k3", "k5", "k6", "k7"];

/** The strip of a run: {lines, key} to be drawn and told; null if the run does not say. */
export function splitOf(data, run, axis, along) {
  const columns = data.columns(run);
  const seconds = columns.get("time/seconds");
  const parts = order([...columns.keys()].filter(isPart).map((name) => name.slice(5)));
  const x = along.map((name) => columns.get(name)).find(Boolean);
  if (!seconds?.length || !parts.length || !x) return null;
  const rows = chosen(seconds, data.parts.has(run));
  if (rows.length < 2) return null;
  const shares = parts.map((part) => {
    const column = columns.get(`time/${part}`);
    const at = (row) => [row < 0 ? 0 : seconds[row], row < 0 ? 0 : column[row] || 0];
    return rows.slice(1).map((row, i) => {
      const [[from, before], [to, after]] = [at(rows[i]), at(row)];
      return Math.max(0, (after - before) / (to - from));
    });
  });
  const total = shares.reduce((sum, values) => sum + values.reduce((a, b) => a + b, 0), 0) || 1;
  const heights = shares[0].map(() => 0);
  const lines = parts.map((part, index) => {
    const told = [shares[index][0], ...shares[index]];
    for (let i = 0; i < heights.length; i++) heights[i] += shares[index][i];
    const [label, colour] = PARTS[part] ?? [part.replaceAll("_", " "), OTHERS[index % OTHERS.length]];
    const share = shares[index].reduce((a, b) => a + b, 0) / total;
    return { label, colour, x: places(rows, x), y: [heights[0], ...heights], told, fill: true, share };
  });
  return { lines: lines.reverse(), most: Math.max(...heights) };
}

/** What the colours mean, with the share of all. */
export function splitKey(lines) {
  return [...lines].reverse().map((line) =>
    make("span", { style: { "--k": `var(--${line.colour})` } }, make("i"), `${line.label} ${percent(line.share)}`));
}

function places(rows, x) {
  return rows.map((row) => (row < 0 ? 0 : x[row])).map((value, i, all) => (i && value <= all[i - 1] ? all[i - 1] + 1e-9 : value));
}

function order(parts) {
  const known = Object.keys(PARTS);
  const rank = (part) => (known.includes(part) ? known.indexOf(part) : 2.5);
  return parts.sort((a, b) => rank(a) - rank(b));
}

/** Rows at about even distances, each later than the one before; the first is -1 where a run is there from its begin. */
function chosen(seconds, isPart) {
  const rows = [isPart ? 0 : -1];
  let last = isPart ? seconds[0] : 0;
  const step = (seconds[seconds.length - 1] - last) / MOST;
  for (let row = 0; row < seconds.length; row++) {
    if (seconds[row] > last && (seconds[row] - last >= step || row === seconds.length - 1)) {
      rows.push(row);
      last = seconds[row];
    }
  }
  return rows;
}
