// What the user notes of the runs of a line: a name, tags, a text, and whether the list hides them. Kept in their folders.

import { make, say } from "./dom.js";

export class Notes {
  constructor() {
    const change = () => this.keep();
    this.name = make("input", { type: "text", placeholder: "name", "aria-label": "Name", on: { change } });
    this.tags = make("input", { type: "text", placeholder: "tags, separated by commas", "aria-label": "Tags", on: { change } });
    this.text = make("textarea", { rows: 2, placeholder: "notes", "aria-label": "Notes", on: { change } });
    this.hidden = make("input", { type: "checkbox", on: { change } });
    this.said = make("small", { role: "status" });
    this.noted = make("p", { class: "state" });
    const hide = make("label", {}, this.hidden, " hide in the list");
    this.element = make("div", {}, this.noted, make("details", {}, make("summary", {}, "Name, tags, notes"),
      make("div", { class: "notes" }, this.name, this.tags, this.text, hide, this.said)));
  }

  /** Shows the notes of a run; what is changed is kept for all `runs` of its line. */
  show(run, runs) {
    this.runs = runs;
    const shape = JSON.stringify([run.id, run.notes]);
    if (shape === this.shape) return;
    this.shape = shape;
    const { name, tags, text, hidden } = run.notes;
    say(this.noted, [tags.join(", "), text].filter(Boolean).join(" · "));
    const values = [[this.name, name], [this.tags, tags.join(", ")], [this.text, text]];
    const other = run.id !== this.run;
    for (const [field, value] of values) if (other || field !== document.activeElement) field.value = value;
    this.hidden.checked = hidden;
    if (other) say(this.said, "");
    this.run = run.id;
  }

  async keep() {
    const tags = this.tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    const body = JSON.stringify({ name: this.name.value.trim(), tags, text: this.text.value, hidden: this.hidden.checked });
    try {
      for (const { id } of this.runs) {
        const answer = await fetch(`runs/${id}/notes`, { method: "PUT", body });
        if (!answer.ok) throw new Error(await answer.text());
      }
      say(this.said, "saved");
    } catch (error) {
      say(this.said, `not saved: ${error.message}`);
    }
  }
}
