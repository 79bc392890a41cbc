// The settings of what is drawn, side by side; first those that differ.

import { make } from "./dom.js";
import { differences } from "./lines.js";
import { setting, short } from "./words.js";

const MOST = 8; // columns, until all are asked for
const VALUES = 8; // of the runs of one line
const DIGITS = 6; // of a number that was drawn at random; the pointer shows the rest

export class Settings {
  constructor(place) {
    this.place = place;
    this.all = this.wide = false;
    this.shown = "";
  }

  show(lines) {
    const shape = JSON.stringify([this.all, this.wide, lines.map((line) => [line.label, line.colour, line.runs.map((run) => run.config)])]);
    if (shape === this.shown) return;
    this.shown = shape;
    const shown = this.wide ? lines : lines.slice(0, MOST);
    const differing = differences(lines);
    const names = [...new Set(lines.flatMap((line) => Object.keys(line.runs[0].config)))];
    const rest = names.filter((name) => !differing.includes(name));
    const listed = this.all ? [...differing, ...rest] : differing;
    const button = (words, turn) => make("button", { type: "button", class: "plain", on: { click: () => { turn(); this.show(lines); } } }, words);
    const toggle = button(this.all ? "show what differs" : "show all", () => { this.all = !this.all; });
    const heading = lines.length > 1 ? "Settings that differ" : "Settings";
    const told = lines.length > 1 ? `${differing.length} of ${names.length} · ` : `${names.length} · `;
    const widen = lines.length <= MOST ? [] : [
      `${shown.length} of ${lines.length} columns · `,
      button(this.wide ? `show the first ${MOST}` : `show ${lines.length - MOST} more`, () => { this.wide = !this.wide; }), " · "];
    this.place.replaceChildren(
      make("h2", {}, heading, make("span", {}, ...widen, told, toggle)),
      listed.length ? this.table(shown, listed, differing) : make("p", { class: "soft" },
        lines.length > 1 ? "They have the same settings." : "Choose several runs to see in what they differ, or show all."),
    );
  }

  table(lines, names, differing) {
    const head = lines.map((line) => make("th", { scope: "col", style: { "--k": `var(--${line.colour})` } }, make("i"), line.name ?? line.label));
    const rows = names.map((name) => {
      const values = lines.map((line) => told(line, name));
      return make("tr", {}, make("th", { scope: "row" }, name), ...values.map((value, index) =>
        make("td", { class: differing.includes(name) && value !== values[0] ? "diff" : "", title: value }, told(lines[index], name, DIGITS))));
    });
    return make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", {}, make("span", { class: "hide" }, "setting")), ...head)), make("tbody", {}, ...rows)));
  }
}

function told(line, name, digits = Infinity) {
  const shown = (value) => setting(Number.isFinite(digits) ? short(value, digits) : value);
  const values = [...new Set(line.runs.map((run) => shown(run.config[name])))];
  return values.slice(0, VALUES).join(", ") + (values.length > VALUES ? ` and ${values.length - VALUES} more` : "");
}
