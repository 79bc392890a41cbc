// What happened to a run, newest first; and what the tuner measured, as bars.

import { make } from "./dom.js";
import { LOADING, count, duration, moment, number } from "./words.js";

const SHOWN = 30;

export class Log {
  constructor(place) {
    this.place = place;
    this.all = false;
    this.shown = "";
  }

  show(run, details) {
    const shape = JSON.stringify([run.id, this.all, details.loading, details.problem, details.events.length, details.events.at(-1)]);
    if (shape === this.shown) return;
    this.shown = shape;
    const events = [...details.events].reverse();
    const listed = this.all ? events : events.slice(0, SHOWN);
    const toggle = events.length > SHOWN ? make("button", { type: "button", class: "plain",
      on: { click: () => { this.all = !this.all; this.show(run, details); } } }, this.all ? "show the newest" : `show all ${events.length}`) : null;
    this.place.replaceChildren(
      make("h2", {}, "What happened", make("span", {}, toggle)),
      details.problem ? make("p", { class: "bad" }, details.problem) : "",
      listed.length ? make("ol", { class: "log" }, ...listed.map(entry))
        : make("p", { class: "soft" }, details.loading ? LOADING : "Nothing was logged."),
    );
  }
}

function entry(event) {
  return make("li", { "data-kind": event.kind }, make("time", {}, moment(event.time)), make("b", {}, event.kind),
    make("span", {}, event.text), make("small", {}, `${count(event.step)} steps · ${duration(event.seconds)}`));
}

const MEASURES = [["sampling", "steps a second"], ["updates", "updates a second"]];

/** What was tried and how fast it was: a table with bars; null where nothing was. */
export function tunedOf(details) {
  const event = details.events.findLast((each) => each.kind === "tuned" && Array.isArray(each.data?.probes));
  if (!event) return null;
  const probes = event.data.probes.filter((probe) => probe && typeof probe.size === "object");
  const sizes = [...new Set(probes.flatMap((probe) => Object.keys(probe.size)))]
    .filter((name) => new Set(probes.map((probe) => probe.size[name])).size > 1);
  const measures = MEASURES.filter(([name]) => probes.some((probe) => Number.isFinite(probe[name])));
  const best = JSON.stringify(event.data.best);
  const rows = probes.map((probe) => make("tr", { class: same(probe.size, event.data.best) ? "best" : "" },
    ...sizes.map((name) => make("td", {}, number(probe.size[name]))),
    ...measures.map(([name]) => make("td", {}, bar(probe[name], Math.max(...probes.map((each) => each[name] || 0))))),
    make("td", {}, probe.note || (same(probe.size, event.data.best) ? "chosen" : ""))));
  const heads = [...sizes.map((name) => name.replaceAll("_", " ")), ...measures.map(([, words]) => words), ""];
  return { best, text: event.text, table: make("div", { class: "scroll" }, make("table", { class: "tuned" },
    make("thead", {}, make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words)))), make("tbody", {}, ...rows))) };
}

const same = (a, b) => Object.keys(a).every((name) => a[name] === b?.[name]);

function bar(value, most) {
  if (!Number.isFinite(value)) return "–";
  return make("span", { class: "bar", style: { "--part": most ? value / most : 0 } }, number(value));
}
