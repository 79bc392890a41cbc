// The trials of a sweep as parallel coordinates, how much each setting decides, and the trials in order.

import { draw, make, say } from "./dom.js";
import { LOADING, count, number, percent, setting, short } from "./words.js";

const HEIGHT = 200; // of the axes, in units of the drawing
const LETTER = 7.6; // pixels of the name above an axis
const LISTED = 10; // trials in the table, until all are asked for

export class Sweep {
  /** `focus(run)` is called with the id of the run that somebody wants to see. */
  constructor(place, focus) {
    Object.assign(this, { place, focus, all: false, shape: "" });
    this.said = make("span");
    this.title = make("h2", {}, "The sweep", this.said);
    this.words = make("p", { class: "soft" });
    this.axes = make("div", { class: "axes" });
    this.shares = make("div", { class: "shares" });
    this.trials = make("div");
    place.append(this.title, this.words, this.axes, make("div", { class: "halves" }, this.trials, this.shares));
  }

  /** Shows the sweep of the run in the page's head, which is undefined until it has come; nothing for a run of none. */
  show({ id: run, sweep: id }, sweep = { problem: LOADING }) {
    this.place.hidden = !id;
    if (!id) return;
    const shape = JSON.stringify([sweep, run, this.all]);
    if (shape === this.shape) return;
    this.shape = shape;
    const told = sweep.problem ? "" : `${sweep.trials.length} of ${sweep.planned} trials · ${sweep.sampler}, ${sweep.metric} return`;
    say(this.said, told);
    say(this.words, sweep.problem);
    const names = sweep.problem ? [] : ordered(sweep);
    this.axes.replaceChildren(...(names.length ? this.coordinates(sweep, names, run) : []));
    this.shares.replaceChildren(...(sweep.problem ? [] : importance(sweep)));
    this.trials.replaceChildren(...(names.length ? [this.table(sweep, names, run)] : []));
  }

  coordinates(sweep, names, run) {
    const scales = [...names.map((name) => scaleOf(sweep.space[name])), scaleOfValues(sweep.trials)];
    const at = (index) => (scales.length > 1 ? index / (scales.length - 1) : 0.5);
    const picture = draw("svg", { viewBox: `0 0 1000 ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": "trials as lines over the settings that were varied; the table below has the same" });
    scales.forEach((_, index) => picture.append(draw("line", { class: "axis", x1: 1000 * at(index), x2: 1000 * at(index), y1: 0, y2: HEIGHT })));
    const said = make("p", { class: "soft said" }, "Point at a line to read it; a click shows its run.");
    const last = scales[scales.length - 1];
    const worst = [...sweep.trials].sort((a, b) => (a.value ?? -Infinity) - (b.value ?? -Infinity)); // the best on top
    for (const trial of worst) {
      const values = [...names.map((name) => trial.settings[name]), trial.value];
      const points = values.map((value, index) => [1000 * at(index), HEIGHT * (1 - scales[index].place(value))])
        .filter(([, y]) => Number.isFinite(y)).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
      const line = draw("polyline", { class: `trial ${trial.state} ${trial.number === sweep.best ? "best" : ""}`, points, fill: "none" });
      line.style.setProperty("--part", last.place(trial.value) || 0);
      const wide = draw("polyline", { class: "wide", points, fill: "none" });
      const group = draw("g", { class: trial.id === run ? "on" : "" }, line, wide);
      group.addEventListener("mouseenter", () => say(said, words(trial, names)));
      group.addEventListener("click", () => this.focus(trial.id));
      picture.append(group);
    }
    const labels = scales.map((scale, index) => label(scale, index < names.length ? names[index] : "return", at(index)));
    const gap = LETTER * Math.max(...names.map((name) => name.length), 10);
    return [make("div", { class: "plane", style: { "--gaps": scales.length - 1, "--gap": `${gap}px` } }, picture, ...labels), said];
  }

  table(sweep, names, run) {
    const sorted = [...sweep.trials].sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    const rows = (this.all ? sorted : sorted.slice(0, LISTED)).map((trial) => make("tr", { class: trial.id === run ? "on" : "" },
      make("th", { scope: "row" }, make("button", { type: "button", class: "plain", title: "show its run", on: { click: () => this.focus(trial.id) } }, trial.run)),
      make("td", {}, number(trial.value)), ...names.map((name) => make("td", {}, setting(short(trial.settings[name])))),
      make("td", { title: trial.note }, trial.number === sweep.best ? "best" : trial.state === "complete" ? "" : trial.state)));
    const heads = ["trial", "return", ...names, ""].map((name) => make("th", { scope: "col" }, name));
    const more = sorted.length > LISTED ? make("button", { type: "button", class: "plain",
      on: { click: () => { this.all = !this.all; this.show({ id: run, sweep: sweep.sweep }, sweep); } } }, this.all ? "show the best" : `show all ${sorted.length}`) : "";
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)), more);
  }
}

/** The settings that were varied, those that decide most first. */
function ordered(sweep) {
  const shares = sweep.importance?.values ?? {};
  return Object.keys(sweep.space).sort((a, b) => (shares[b] ?? 0) - (shares[a] ?? 0));
}

/** Where values lie on an axis, from 0 to 1: {place(value), marks: [[words, place] …]}; NaN for none. */
function scaleOf(space) {
  if (space.values) {
    const known = space.values.map((value) => JSON.stringify(value));
    const spot = (index) => (index < 0 ? NaN : known.length > 1 ? index / (known.length - 1) : 0.5);
    return { place: (value) => spot(known.indexOf(JSON.stringify(value))), marks: space.values.map((value, index) => [setting(value), spot(index)]) };
  }
  return between(space.low, space.high, space.log ? Math.log : (value) => value);
}

function scaleOfValues(trials) {
  const values = trials.map((trial) => trial.value).filter(Number.isFinite);
  return values.length ? between(Math.min(...values), Math.max(...values), (value) => value) : { place: () => NaN, marks: [] };
}

function between(low, high, bend) {
  const width = bend(high) - bend(low);
  const place = (value) => (Number.isFinite(value) ? (width > 0 ? (bend(value) - bend(low)) / width : 0.5) : NaN);
  return { place, marks: width > 0 ? [[number(low), 0], [number(high), 1]] : [[number(low), 0.5]] };
}

function label(scale, name, at) {
  const box = make("div", { class: `label ${at === 0 ? "first" : at === 1 ? "last" : ""}` }, make("b", {}, name),
    ...scale.marks.map(([text, place]) => {
      const mark = make("span", {}, text);
      mark.style.setProperty("--place", place);
      return mark;
    }));
  box.style.setProperty("--at", at);
  return box;
}

function importance(sweep) {
  const { importance: found } = sweep;
  if (!found) return [make("p", { class: "soft" }, "How much each setting decides is known after some more complete trials.")];
  const bars = Object.entries(found.values).map(([name, share]) => make("div", {}, make("span", { title: name }, name),
    make("i", {}, make("i", { style: { width: `${100 * share}%` } })), make("b", {}, percent(share))));
  return [make("p", { class: "soft" }, `How much each setting decides (${found.measure})`), make("div", { class: "bars" }, ...bars)];
}

function words(trial, names) {
  const given = names.map((name) => `${name} ${setting(short(trial.settings[name]))}`).join(" · ");
  return `${trial.run}: ${trial.value === null ? "no return" : number(trial.value)} · ${given} · ${count(trial.steps)} steps, ${trial.note || trial.state}`;
}
