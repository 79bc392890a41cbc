// The controls of a robot at play: sliders, keys and pushes, for everybody who watches it.

import { make, say } from "./dom.js";
import { number } from "./words.js";

const OWN = 600; // milliseconds after a slider was moved in which what the player says of it is late

export class Steer {
  /** `tell(message)` sends one of the messages of headrace.watch.steering to the player; `screen` takes the keys, too. */
  constructor(screen, tell) {
    this.tell = tell;
    this.screen = screen;
    this.by = make("input", { type: "checkbox", on: { change: () => this.take(this.by.checked) } });
    this.push = make("button", { type: "button", on: { click: () => { this.tell({ push: true }); this.screen.focus(); } } }, "push");
    this.behind = make("input", { type: "checkbox", on: { change: () => this.look(this.behind.checked) } });
    this.rows = make("div", { class: "ranges" });
    this.own = make("label", {}, this.by, "steer");
    this.view = make("label", {}, this.behind, "from behind");
    this.help = make("p", { class: "soft help" });
    this.wrong = make("p", { class: "state bad", role: "status" });
    this.place = make("div", { class: "steer", role: "group", "aria-label": "Steer the robot", hidden: true },
      make("div", { class: "deeds" }, this.own, this.view, this.push), this.rows, this.help, this.wrong);
    for (const each of [screen, this.place]) each.addEventListener("keydown", (event) => this.press(event));
    this.clear();
  }

  clear() {
    this.controls = null;
    this.shape = "";
    this.moved = -OWN;
    this.place.hidden = true;
    this.screen.removeAttribute("tabindex");
    say(this.wrong, "");
  }

  /** What the player says of its robot; null for nothing that can be steered. */
  show(controls) {
    if (!controls) {
      if (this.controls) this.clear();
      return;
    }
    const shape = JSON.stringify([controls.ranges, controls.can_push, controls.can_chase]);
    if (shape !== this.shape) this.build(controls);
    this.shape = shape;
    this.controls = controls;
    if (performance.now() - this.moved < OWN) return;
    this.by.checked = controls.steered;
    this.behind.checked = controls.chased;
    controls.command.forEach((value, index) => this.set(index, value));
  }

  build({ ranges, steps, can_push, can_chase, help }) {
    this.sliders = ranges.map(([label, low, high], index) => make("input", { type: "range", min: low, max: high, step: steps[index],
      "aria-label": label, on: { input: () => this.take(true) } }));
    this.values = ranges.map(() => make("b"));
    this.rows.replaceChildren(...ranges.map(([label], index) => make("label", {}, make("span", {}, label), this.sliders[index], this.values[index])));
    this.own.hidden = !ranges.length;
    this.push.hidden = !can_push;
    this.view.hidden = !can_chase;
    this.help.replaceChildren(...(ranges.length ? help.split(" · ") : []).map((each) => make("span", {}, each)));
    this.place.hidden = false;
    this.screen.tabIndex = 0; // so that it takes keys
    const active = document.activeElement; // the button that let the agent play, or none
    if (active === document.body || this.screen.parentElement.contains(active)) this.screen.focus({ preventScroll: true });
  }

  set(index, value) {
    if (Number(this.sliders[index].value) !== value) this.sliders[index].value = value;
    this.write(index, value);
  }

  write(index, value) {
    say(this.values[index], number(Number(value.toFixed(2))));
  }

  /** Commands what the sliders say, or leaves it to the task. */
  take(own) {
    const command = this.sliders.map((each) => Number(each.value));
    command.forEach((value, index) => this.write(index, value));
    this.by.checked = own;
    this.moved = performance.now();
    say(this.wrong, "");
    this.tell({ command: own ? command : null });
  }

  /** Looks at the robot from behind, by a camera that turns with it, or as the task does. */
  look(chase) {
    this.moved = performance.now();
    say(this.wrong, "");
    this.tell({ chase });
    this.screen.focus();
  }

  press(event) {
    const key = event.key.toLowerCase();
    if (!this.controls?.keys.includes(key) || event.ctrlKey || event.metaKey || event.altKey) return;
    const onSlider = event.target.type === "range" && key.startsWith("arrow");
    const onButton = key === " " && ["BUTTON", "INPUT"].includes(event.target.tagName) && event.target.type !== "range";
    if (onSlider || onButton) return; // the browser's own meaning
    event.preventDefault(); // the page does not scroll
    this.moved = -OWN;
    say(this.wrong, "");
    this.tell({ key });
  }

  refuse(words) {
    say(this.wrong, words);
  }
}
