// The list of runs: grouped by when they trained, filtered, and chosen from.

import { draw, make, say } from "./dom.js";
import { filterOf, valuesOf } from "./filter.js";
import { SWEPT, nameOf, tellApart, told } from "./lines.js";
import { LOADING, count, duration, lastPart, moment, number, score, seedsOrRuns, shortTask } from "./words.js";

const WIDTH = 60;
const HEIGHT = 22;
const DAY = 86400;

export class List {
  /** `toggle(ids, alone)` is called when a row is clicked. */
  constructor(place, toggle) {
    this.place = place;
    this.toggle = toggle;
    this.rows = new Map();
    this.opened = new Set();
    this.labels = new Map();
    this.order = "";
  }

  /** Shows runs: `state` has runs, joined, by, hidden, chosen and filter; `lines` are what is drawn of the chosen ones. */
  show(state, lines) {
    this.state = state;
    this.lines = lines;
    const fits = filterOf(state.filter);
    const runs = [...state.runs.values()].filter((run) => (state.hidden || !run.notes.hidden) && fits(run));
    const order = state.by ? byValue(state.by) : (a, b) => rank(a) - rank(b);
    const entries = this.entries(runs, state).sort((a, b) => order(a, b) || b.when - a.when || byName(a, b));
    const colours = new Map(lines.flatMap((line) => line.runs.map((run) => [run.id, line.colour])));
    this.label("all", entries, false);
    const wanted = [];
    let group = null;
    for (const entry of entries) {
      const words = headed(entry, state.by);
      if (words !== group) wanted.push(this.heading(group = words, entries.filter((each) => headed(each, state.by) === words)));
      wanted.push(this.row(entry, colours, false));
      if (entry.runs.length > 1 && this.opened.has(entry.key)) {
        const inner = entry.runs.map((run) => entryOf(`${run.id} in ${entry.key}`, [run]));
        this.label(entry.key, inner, true);
        for (const each of inner) wanted.push(this.row(each, colours, true));
      }
    }
    if (!entries.length) wanted.push(this.nothing(state));
    const shown = wanted.map((row) => row.dataset.key).join(" ");
    if (shown !== this.order) this.place.replaceChildren(...wanted);
    this.order = shown;
    const kept = new Set(wanted.map((row) => row.dataset.key));
    for (const key of this.rows.keys()) if (!kept.has(key)) this.rows.delete(key);
    return runs.length;
  }

  entries(runs, { joined, by }) {
    const groups = new Map();
    for (const run of runs) {
      const alike = !joined ? run.id : run.sweep && !by ? `sweep ${run.sweep}` : run.group;
      for (const value of by ? valuesOf(run, by) : [null]) {
        const key = by ? `${alike} ${JSON.stringify(value ?? null)}` : alike;
        if (!groups.has(key)) groups.set(key, { value, members: [] });
        groups.get(key).members.push(run);
      }
    }
    return [...groups].map(([key, { value, members }]) => entryOf(key, members, value));
  }

  /** Gives entries the labels that they have in the list; they are worked out anew only where the entries are others. */
  label(place, entries, inner) {
    const shape = entries.map(({ key, runs }) => `${key} ${runs[0].group} ${runs.length} ${nameOf(runs)}`).join();
    if (this.labels.get(place)?.shape !== shape) {
      for (const entry of entries) entry.label = title(entry, inner);
      tellApart(entries, inner ? SWEPT : undefined);
      this.labels.set(place, { shape, labels: entries.map((entry) => entry.label) });
    }
    entries.forEach((entry, index) => { entry.label = this.labels.get(place).labels[index]; });
  }

  /** The heading of some entries, which chooses all of them. */
  heading(words, entries) {
    const row = this.kept(`heading ${words}`, () => make("h2", { class: "group" },
      make("button", { type: "button", class: "plain", title: "choose all of these", on: { click: () => this.toggle(row.ids, true) } }, words)));
    row.ids = entries.flatMap((entry) => entry.runs.map((run) => run.id));
    return row;
  }

  nothing(state) {
    const none = state.roots.length ? `no runs yet in ${state.roots.join(", ")}` : LOADING;
    const words = state.runs.size ? "no run fits the filter" : none;
    return this.kept(`nothing ${words}`, () => make("p", { class: "group" }, words));
  }

  kept(key, build) {
    if (!this.rows.has(key)) {
      const row = build();
      row.dataset.key = key;
      this.rows.set(key, row);
    }
    return this.rows.get(key);
  }

  row(entry, colours, inner) {
    const row = this.kept(`${inner ? "inner" : "run"} ${entry.key}`, () => this.build(entry, inner));
    const { chosen } = this.state;
    const on = entry.runs.filter((run) => chosen.includes(run.id)).length;
    const [head] = entry.runs;
    row.classList.toggle("on", on > 0);
    row.dataset.status = entry.kind;
    row.style.setProperty("--k", `var(--${colours.get(head.id) ?? "soft"})`);
    row.box.checked = on === entry.runs.length;
    row.box.indeterminate = on > 0 && on < entry.runs.length;
    row.entry = entry;
    say(row.name, entry.label);
    row.name.title = entry.label; // where it is too long
    const words = [inner && head.sweep ? lastPart(head.name) : "", about(entry), head.notes.tags.join(", ")].filter(Boolean).join(" · ");
    say(row.about, words);
    row.about.title = entry.runs.length > 1 ? "" : `${head.path}: ${head.status.text}`;
    row.box.setAttribute("aria-label", `${entry.label}, ${words}`);
    if (row.more) {
      row.more.textContent = this.opened.has(entry.key) ? "−" : "+";
      row.more.setAttribute("aria-expanded", String(this.opened.has(entry.key)));
    }
    const points = JSON.stringify(head.spark);
    if (points !== row.points) {
      row.points = points;
      row.picture.setAttribute("points", sparkline(head.spark));
    }
    return row;
  }

  build(entry, inner) {
    const box = make("input", { type: "checkbox", class: "dot" });
    const name = make("b");
    const words = make("i");
    const picture = draw("polyline", { fill: "none" });
    const spark = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, picture);
    const more = entry.runs.length > 1
      ? make("button", { type: "button", class: "more", "aria-label": "show each run", "aria-expanded": "false" }, "+") : null;
    const row = make("div", { class: inner ? "item inner" : "item" }, box, make("div", {}, name, words), spark, more);
    Object.assign(row, { box, name, about: words, picture, more, entry });
    const ids = () => row.entry.runs.map((run) => run.id);
    box.addEventListener("change", () => this.toggle(ids(), false));
    box.addEventListener("keydown", (event) => event.key === "Enter" && this.toggle(ids(), true));
    row.addEventListener("click", (event) => {
      if (event.target === box || event.target === more) return;
      this.toggle(ids(), !(event.ctrlKey || event.metaKey || event.shiftKey));
    });
    more?.addEventListener("click", () => {
      if (!this.opened.delete(row.entry.key)) this.opened.add(row.entry.key);
      this.show(this.state, this.lines);
    });
    return row;
  }
}

function entryOf(key, runs, value = null) {
  const when = Math.max(...runs.map((run) => run.status.when || 0));
  const kinds = [...new Set(runs.map((run) => run.status.kind))];
  const kind = kinds.includes("running") ? "running" : kinds.length === 1 ? kinds[0] : "several";
  const sweep = key.startsWith("sweep ");
  const order = (a, b) => (sweep ? better(a, b) || a.name.localeCompare(b.name, "en", { numeric: true }) : (a.seed ?? 0) - (b.seed ?? 0));
  const sorted = runs.length > 1 ? [...runs].sort(order) : runs;
  return { key, value, sweep, runs: sorted, when, kind, kinds, period: kind === "running" ? "training now" : period(when) };
}

function period(when) {
  const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
  if (when >= midnight) return "today";
  return when >= midnight - DAY ? "yesterday" : "earlier";
}

const headed = (entry, by) => (by ? told(by, entry.value) : entry.period);

const byValue = (name) => (a, b) => {
  if (typeof a.value === "number" && typeof b.value === "number") return a.value - b.value;
  return told(name, a.value).localeCompare(told(name, b.value));
};

const rank = (entry) => ["training now", "today", "yesterday", "earlier"].indexOf(entry.period);
const byName = (a, b) => a.runs[0].name.localeCompare(b.runs[0].name);

function title(entry, inner) {
  const [run] = entry.runs;
  if (nameOf(entry.runs)) return nameOf(entry.runs);
  if (!run.task) return run.name;
  if (entry.sweep) return `${shortTask(run.task)} ${run.algo} sweep of ${entry.runs.length}`;
  if (inner && run.sweep) return ""; // the settings tell
  if (inner) return [`seed ${run.seed}`, lastPart(run.name)].filter((words) => words !== `seed-${run.seed}`).join(" · ");
  const seeds = entry.runs.length > 1 ? `× ${entry.runs.length} ${seedsOrRuns(entry.runs)}` : `seed ${run.seed}`;
  return `${shortTask(run.task)} ${run.algo} ${seeds}`;
}

/** How it stands, in a few words. */
function about(entry) {
  const [run] = entry.runs;
  if (entry.sweep) return `${entry.kind === "running" ? "running · " : ""}${best(entry.runs)}`;
  if (entry.runs.length > 1) return `${entry.kind === "several" ? entry.kinds.join(", ") : entry.kind} · ${together(entry.runs)}`;
  const policies = Object.entries(run.returns).map(([name, value]) => `${name} ${number(value)}`);
  const earned = policies.join(", ") || (score(run) === null ? null : number(score(run)));
  const words = {
    running: [earned ?? `${count(run.step)} steps`],
    solved: [earned && `${earned} in ${duration(run.seconds)}`],
    finished: [earned],
    interrupted: [earned, "resume?"],
    killed: [`last seen ${moment(run.status.when)}`, earned],
    failed: [run.status.text],
    damaged: [run.status.text],
  }[run.status.kind] ?? [];
  return [run.status.kind, ...words].filter(Boolean).join(" · ");
}

/** The order of runs with the best one first, and those without a return last. */
const better = (a, b) => (score(b) ?? -Infinity) - (score(a) ?? -Infinity) || 0; // 0 for none of both

function best(runs) {
  const values = runs.map(score).filter((value) => value !== null);
  return values.length ? `best ${number(Math.max(...values))}` : "no returns yet";
}

function together(runs) {
  const values = runs.map(score).filter((value) => value !== null);
  if (!values.length) return "no returns yet";
  const middle = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / Math.max(1, values.length - 1));
  return values.length > 1 ? `${number(middle)} ± ${number(spread)}` : number(middle);
}

function sparkline(values) {
  if (values.length < 2) return "";
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return values.map((value, i) => {
    const y = HEIGHT - 2 - ((value - low) / (high - low || 1)) * (HEIGHT - 4);
    return `${((i * WIDTH) / (values.length - 1)).toFixed(1)},${y.toFixed(1)}`;
  }).join(" ");
}
