// What is shown of the chosen runs: a header for one of them, and cards with charts of all.

import { Agent } from "./agent.js";
import { Chart } from "./chart.js";
import { AXES, growth } from "./data.js";
import { make, say } from "./dom.js";
import { figuresOf, returnsOf } from "./figures.js";
import { Header } from "./header.js";
import { COLOURS, byTask, mean } from "./lines.js";
import { Log, tunedOf } from "./log.js";
import { Ranks } from "./ranks.js";
import { Settings } from "./settings.js";
import { smoothed } from "./smooth.js";
import { splitKey, splitOf } from "./split.js";
import { Sweep } from "./sweep.js";
import { LOADING, bytes, number, percent, shortTask, title } from "./words.js";

const QUIETEST = 12; // runs of which the single curves are drawn behind their mean
const BYTES = Array.from({ length: 50 }, (_, i) => 2 ** i); // between the marks of a chart of memory
const POLICY_DASH = [undefined, [7, 4], [2, 3], [9, 3, 2, 3]];

export class View {
  /** `act` has what the page can do: zoom(range), axis(name), smooth(share), remember(), focus(run), agent(asked), steer(message). */
  constructor(place, data, act) {
    Object.assign(this, { data, act, charts: new Set(), share: 0, figures: figuresOf([]) });
    this.header = new Header();
    this.returns = make("section", { class: "card s8", "aria-label": "Return" });
    this.agentCard = make("section", { class: "card s4", "aria-label": "The agent" });
    this.split = make("section", { class: "card s6", "aria-label": "Where the time goes" });
    this.first = make("div", { class: "row" }, this.returns, this.agentCard);
    this.sweepCard = make("section", { class: "card", "aria-label": "The sweep", hidden: true });
    this.second = make("div", { class: "row" }, this.split);
    this.ranksCard = make("section", { class: "card", "aria-label": "Processes", hidden: true });
    this.learning = make("div", { class: "row" });
    this.more = make("div", { class: "row" });
    this.moreBox = make("details", { on: { toggle: () => this.act.redraw() } }, make("summary", {}, "More figures"), this.more);
    this.tuner = make("section", { class: "card", "aria-label": "What the tuner measured", hidden: true });
    this.settingsCard = make("section", { class: "card", "aria-label": "Settings" });
    this.logCard = make("section", { class: "card", "aria-label": "What happened" });
    place.append(this.header.element, this.first, this.sweepCard, this.second, this.ranksCard, this.learning, this.moreBox, this.tuner,
      this.settingsCard, this.logCard);
    this.agent = new Agent(this.agentCard, act.agent, act.steer);
    this.sweep = new Sweep(this.sweepCard, (run) => act.focus(run));
    this.ranks = new Ranks(this.ranksCard);
    this.settings = new Settings(this.settingsCard);
    this.log = new Log(this.logCard);
    this.buildReturns();
    this.splitKey = make("div", { class: "key" });
    this.splitSaid = make("span");
    const strip = make("div");
    this.split.append(make("h2", {}, "Where the time goes", this.splitSaid), strip, this.splitKey);
    this.strip = this.chart(strip, { label: "Where the time goes", height: 150, write: number });
  }

  buildReturns() {
    const axes = Object.keys(AXES).map((name) => make("button", { type: "button", class: "plain", "data-axis": name,
      on: { click: () => this.act.axis(name) } }, AXES[name].label));
    this.axes = axes;
    this.slider = make("input", { type: "range", min: 0, max: 20, step: 1, // percent of a curve's length
      on: { input: () => this.act.smooth(this.slider.value / 100), change: () => this.act.remember() } });
    this.sliderSaid = make("span");
    const smooth = make("label", { class: "slider", title: "each point is the mean of those before it within this part of its curve" },
      "smooth ", this.slider, this.sliderSaid);
    this.all = make("button", { type: "button", class: "plain", hidden: true, on: { click: () => this.act.zoom(null) } }, "show all");
    this.csv = make("a", { class: "plain", download: "metrics.csv" }, "CSV");
    const png = make("button", { type: "button", class: "plain", on: { click: () => this.savePictures() } }, "PNG");
    this.large = make("div", { class: "tasks" });
    this.empty = make("p", { class: "soft" });
    this.key = make("div", { class: "key" });
    this.heading = document.createTextNode("Return");
    this.returns.append(make("h2", {}, this.heading, make("span", {}, "against ", ...axes, this.all), smooth, make("span", {}, this.csv, png)), this.empty, this.large, this.key);
  }

  /** The large charts, one for each task, as returns of several tasks have nothing in common; those that are there stay. */
  largeCharts(tasks) {
    const shape = JSON.stringify(tasks.map(({ task }) => task));
    if (shape !== this.tasksShape) {
      this.tasksShape = shape;
      for (const { chart } of this.larges ?? []) this.charts.delete(chart);
      const several = tasks.length > 1;
      this.larges = tasks.map(({ task }) => {
        const place = make("div");
        const box = make("div", {}, several ? make("h3", {}, task || "no task") : null, place);
        const chart = this.chart(place, { label: several ? `Return of ${task}` : "Return", height: several ? 220 : 300 });
        return { task, box, chart };
      });
      this.large.classList.toggle("several", several);
      this.large.replaceChildren(...this.larges.map(({ box }) => box));
    }
    return this.larges.map(({ chart }) => chart);
  }

  savePictures() {
    for (const { task, chart } of this.larges) chart.save(this.larges.length > 1 ? `return_${task.replace(/\W+/g, "_")}` : "return");
  }

  chart(place, options) {
    const chart = new Chart(place, { zoomed: (range) => this.act.zoom(range), ...options });
    this.charts.add(chart);
    return chart;
  }

  /** Draws everything: `lines` of the chosen runs, `run` the one in the header, curves smoothed over a share of their length. */
  show({ lines, run, axis, range, smooth }) {
    const { data } = this;
    this.share = smooth;
    this.header.show(run, lines.find((line) => line.runs.includes(run)).runs);
    const names = this.namesOf(lines);
    const tasks = byTask(lines);
    const loading = lines.some((line) => line.runs.some((each) => !data.series.has(each.id)));
    this.showReturns(lines, tasks, run, axis, range, loading);
    this.agent.show(run, data.details(run.id).episodes);
    this.showSplit(run, axis, range, lines.length > 1);
    if (names.length || !loading) this.figures = figuresOf(names); // else those of before stay until there are others
    this.sweep.show(run, data.sweeps.get(run.sweep));
    this.ranks.show(run);
    const { figures } = this;
    const speed = { key: "speed", title: "Steps a second", columns: [{ name: "step", policy: null }], growth: true };
    const side = [speed, ...figures.age, ...figures.machine];
    const learning = tasks.length < 2 ? figures.learning : figures.learning.flatMap((figure) => tasks.map((each) => (
      { ...figure, key: `${figure.key} ${each.task}`, title: `${figure.title}, ${shortTask(each.task)}`, lines: each.lines })));
    this.loading = loading;
    this.cards(this.second, side.slice(0, 2), lines, axis, range);
    this.cards(this.learning, [...learning, ...side.slice(2)], lines, axis, range);
    this.moreBox.hidden = !figures.more.length;
    if (this.moreBox.open) this.cards(this.more, figures.more, lines, axis, range);
    this.settings.show(lines);
    const details = data.details(run.id);
    this.log.show(run, details);
    this.showTuner(details);
  }

  namesOf(lines) {
    return [...new Set(lines.flatMap((line) => line.runs.flatMap((each) => [...this.data.columns(each.id).keys()])))];
  }

  redraw() {
    for (const chart of this.charts) chart.redraw();
  }

  showReturns(lines, tasks, run, axis, range, loading) {
    const names = this.namesOf(lines);
    const columns = returnsOf(names);
    this.heading.data = columns[0].name === "elo" ? "Elo" : "Return";
    let nothing = true;
    this.largeCharts(tasks).forEach((chart, index) => {
      const some = tasks[index].lines;
      const curves = this.curves(some, returnsOf(this.namesOf(some)), axis, true);
      chart.zoom(range);
      chart.show(curves, axis);
      if (curves.some((curve) => curve.y.length)) nothing = false;
    });
    this.large.classList.toggle("waits", nothing && loading);
    say(this.empty, loading ? LOADING : nothing ? "no episode has ended yet that was measured" : "");
    for (const button of this.axes) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
    this.slider.value = 100 * this.share;
    say(this.sliderSaid, percent(this.share));
    this.all.hidden = !range;
    this.csv.href = `metrics.csv?runs=${lines.flatMap((line) => line.runs.map((each) => each.id)).join(",")}`;
    const policies = columns.filter(({ policy }) => policy).map(({ policy }) => policy);
    const evaluated = names.includes("evaluation/return");
    const shape = JSON.stringify([lines.map((line) => [line.key, line.label, line.colour]), run.id, policies, evaluated]);
    if (shape === this.keyShape) return;
    this.keyShape = shape;
    const key = lines.map((line) => make("button", { type: "button", style: { "--k": `var(--${line.colour})` },
      "aria-pressed": String(line.runs.includes(run)), title: "show this one above and below", on: { click: () => this.act.focus(line.runs[0].id) } },
    make("i"), line.runs.length > 1 ? `${line.label}, mean and 95 % interval` : line.label));
    const alone = lines.length === 1 && policies.length > 1;
    const told = policies.map((policy, index) => (alone
      ? make("span", { style: { "--k": `var(--k${index % COLOURS})` } }, make("i"), policy)
      : make("span", {}, `${["solid", "dashed", "dotted", "dash-dotted"][index % 4]}: ${policy}`)));
    this.key.replaceChildren(...(alone ? [] : key), ...told, ...(evaluated ? [make("span", {}, "● evaluation without exploration")] : []));
  }

  /** The curves of some columns, of every line. */
  curves(lines, columns, axis, marked = false) {
    const found = [];
    const alone = lines.length === 1;
    for (const line of lines) {
      columns.forEach(({ name, policy, growth: grows }, index) => {
        const measured = (each) => (grows ? growth(this.data, each.id, name, axis) : this.data.points(each.id, name, axis));
        const several = policy && columns.length > 1;
        const colour = several && alone ? `k${index % COLOURS}` : line.colour;
        const dash = several && !alone ? POLICY_DASH[index % POLICY_DASH.length] : line.dash;
        const label = several ? (alone ? policy : `${line.label} ${policy}`) : line.label;
        const curves = line.runs.map((each) => smoothed(measured(each), this.share));
        if (curves.length === 1) {
          if (this.share && marked && lines.length <= QUIETEST) found.push({ label, colour, quiet: true, ...measured(line.runs[0]) });
          found.push({ label, colour, dash, ...curves[0] });
        } else {
          if (curves.length <= QUIETEST && marked) for (const each of curves) found.push({ label, colour, quiet: true, ...each });
          found.push({ label, colour, dash, ...mean(curves), width: 2.2 });
        }
      });
      for (const each of marked ? line.runs : []) {
        const points = this.data.evaluations(each.id, axis);
        if (points.x.length) found.push({ label: `${line.label}, evaluated`, colour: line.colour, markers: true, ...points });
      }
    }
    return found;
  }

  showSplit(run, axis, range, several) {
    const split = splitOf(this.data, run.id, axis, AXES[axis].columns);
    const loading = !this.data.series.has(run.id);
    this.split.hidden = !split && !loading;
    this.split.classList.toggle("waits", loading);
    if (loading) say(this.splitSaid, LOADING);
    if (!split) return;
    this.strip.zoom(range);
    this.strip.show(split.lines, axis);
    say(this.splitSaid, several ? `of ${run.name}, seconds a second` : "seconds a second");
    const shape = JSON.stringify(split.lines.map((line) => [line.label, percent(line.share)]));
    if (shape !== this.splitShape) this.splitKey.replaceChildren(...splitKey(split.lines));
    this.splitShape = shape;
  }

  /** Cards with small charts; those that are there already stay. */
  cards(row, figures, lines, axis, range) {
    const wanted = new Set(figures.map((figure) => figure.key));
    for (const card of [...row.querySelectorAll("[data-figure]")]) {
      if (wanted.has(card.dataset.figure)) continue;
      this.charts.delete(card.chart);
      card.remove();
    }
    for (const figure of figures) {
      const card = [...row.children].find((each) => each.dataset.figure === figure.key) ?? this.card(row, figure);
      const { chart } = card;
      const curves = this.curves(figure.lines ?? lines, figure.columns.map((each) => ({ ...each, growth: figure.growth })), axis);
      chart.zoom(range);
      chart.show(curves, axis);
      const last = curves.find((curve) => curve.y.length);
      card.hidden = !last && !this.loading;
      card.classList.toggle("waits", !last && this.loading);
      say(card.said, last ? chart.write(last.y[last.y.length - 1]) : LOADING);
    }
    const ordered = figures.map(({ key }) => [...row.children].find((each) => each.dataset.figure === key));
    const there = [...row.querySelectorAll("[data-figure]")];
    if (ordered.some((card, index) => card !== there[index])) row.append(...ordered);
    row.hidden = ![...row.children].some((each) => !each.hidden);
  }

  card(row, figure) {
    const said = make("span");
    const place = make("div");
    const name = title(figure.title);
    const png = make("button", { type: "button", class: "plain png", "aria-label": `save ${name} as PNG`, title: "save as PNG",
      on: { click: () => card.chart.save(figure.title.replace(/\W+/g, "_")) } }, "↓");
    const card = make("section", { class: "card s3", "data-figure": figure.key, "aria-label": name },
      make("h2", { title: name }, make("b", {}, name), make("span", {}, png, said)), place);
    card.said = said;
    row.append(card);
    card.chart = this.chart(place, { label: name, height: 130, small: true,
      ...(figure.bytes ? { write: bytes, steps: BYTES } : {}) });
    return card;
  }

  showTuner(details) {
    const tuned = tunedOf(details);
    this.tuner.hidden = !tuned;
    if (tuned && tuned.text !== this.tunedText) {
      this.tunedText = tuned.text;
      this.tuner.replaceChildren(make("h2", {}, "What the tuner measured", make("span", {}, tuned.text)), tuned.table);
    }
  }
}
