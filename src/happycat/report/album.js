/* The images of a discovery, column by column, and the marks of the classes that they are given. */

import { make, percent } from "./dom.js";
import { CROSS, NONE, knownMark, newMark } from "./marks.js";

/**
 * Images: path, cls, probability, unsure, x, y, thumbnail, each a list with one value an image.
 * `marks`: class → {colour, shape, kind, name}; `keys`: each image's class, or NONE; `members`: class → images.
 */
export class Album {
  constructor(data) {
    this.slots = { new: new Map(), known: new Map() }; // class → number of its mark, which it keeps
    this.update(data);
  }

  update({ classes, ...columns }) {
    Object.assign(this, columns);
    this.marks = new Map();
    for (const { id, name, kind } of classes) {
      const slots = this.slots[kind];
      if (!slots.has(id)) slots.set(id, slots.size);
      const mark = kind === "new" ? newMark : knownMark;
      this.marks.set(id, { ...mark(slots.get(id)), kind, name });
    }
    this.marks.set(NONE, { colour: "var(--soft)", shape: CROSS, kind: "none", name: "no class fits" });
    this.keys = this.cls.map((id) => id ?? NONE);
    this.members = new Map([...this.marks.keys()].map((key) => [key, []]));
    this.keys.forEach((key, i) => this.members.get(key).push(i));
  }

  get size() {
    return this.path.length;
  }

  /** The name of an image's class. */
  name(i) {
    return this.marks.get(this.keys[i]).name;
  }

  /** An image's class and probability, in words. */
  about(i) {
    return `${this.name(i)}, ${percent(this.probability[i])}`;
  }

  /** The image of a class that is likeliest to be of it; null if it has none. */
  best(key) {
    const inbox = this.members.get(key) ?? [];
    return inbox.reduce((a, b) => (a === null || this.probability[b] > this.probability[a] ? b : a), null);
  }

  /** The mark of a class as a small drawing. */
  glyph(key) {
    const { colour, shape } = this.marks.get(key);
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M${shape.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}Z`);
    drawing.setAttribute("viewBox", "-1.5 -1.5 3 3");
    drawing.append(path);
    drawing.style.color = colour;
    return make("span", { class: "glyph", "aria-hidden": "true" }, drawing);
  }
}
