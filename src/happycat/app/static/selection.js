/* Selected images: by click on the tick, Ctrl- and Shift-click, a rectangle, or the keyboard. */

import { findAll, make } from "./dom.js";

const GALLERY = ".gallery[data-pick]";

export class Selection extends EventTarget {
  constructor() {
    super();
    this.images = new Set();
    this.anchor = null;
  }

  get list() {
    return [...this.images];
  }

  set(images, anchor = this.anchor) {
    this.images = new Set(images);
    this.anchor = anchor;
    this.show();
    this.dispatchEvent(new Event("change"));
  }

  toggle(i) {
    const others = this.list.filter((one) => one !== i);
    this.set(this.images.has(i) ? others : [...others, i], i);
  }

  /** Select from the anchor to an image, in the order of the gallery. */
  extend(i, order) {
    const [from, to] = [order.indexOf(this.anchor), order.indexOf(i)];
    if (from < 0) return this.toggle(i);
    this.set([...this.images, ...order.slice(Math.min(from, to), Math.max(from, to) + 1)]);
  }

  clear() {
    if (this.images.size) this.set([], null);
  }

  /** Show on the small pictures which are selected. */
  show(root = document) {
    for (const thumb of findAll(`${GALLERY} .thumb`, root)) {
      thumb.setAttribute("aria-selected", this.images.has(Number(thumb.dataset.dot)));
    }
  }
}

/** A small picture that can be selected: an option of a list, with a tick. */
export function pickable(galleries, selection) {
  return (i, captions) => {
    const thumb = galleries.thumb(i, captions);
    thumb.setAttribute("role", "option");
    thumb.setAttribute("aria-selected", selection.images.has(i));
    thumb.append(make("span", { class: "tick", "aria-hidden": "true" }));
    return thumb;
  };
}

/** Listen to clicks and keys on all galleries whose images can be selected; `open` shows an image large. */
export function followSelection(selection, open) {
  const thumbOf = (event) => event.target.closest?.(`${GALLERY} .thumb`);
  const orderOf = (thumb) => thumb.closest(GALLERY).images ?? [];

  document.addEventListener("click", (event) => {
    const thumb = thumbOf(event);
    if (!thumb) return;
    const i = Number(thumb.dataset.dot);
    if (event.shiftKey) selection.extend(i, orderOf(thumb));
    else if (event.ctrlKey || event.metaKey || event.target.closest(".tick")) selection.toggle(i);
    else open(i, orderOf(thumb));
  });

  document.addEventListener("keydown", (event) => {
    const thumb = thumbOf(event);
    if (!thumb || event.ctrlKey || event.metaKey || event.altKey) return;
    const i = Number(thumb.dataset.dot);
    if (event.key === " ") {
      event.preventDefault();
      if (event.shiftKey) selection.extend(i, orderOf(thumb));
      else selection.toggle(i);
    } else if (event.shiftKey && event.key.startsWith("Arrow")) {
      if (selection.anchor === null) selection.toggle(i);
      // the gallery has moved the focus when this runs
      setTimeout(() => {
        const next = document.activeElement.closest(`${GALLERY} .thumb`);
        if (next) selection.extend(Number(next.dataset.dot), orderOf(next));
      });
    }
  });
  document.addEventListener("keyup", (event) => event.key === " " && thumbOf(event) && event.preventDefault());
  followRectangle(selection);
}

/** Select with a rectangle that is drawn on the background of galleries. */
function followRectangle(selection) {
  document.addEventListener("pointerdown", (event) => {
    const area = event.target.closest?.("[data-area]");
    const taken = event.target.closest?.("button, input, a, label, select, .head");
    if (!area || taken || event.button || event.pointerType === "touch") return;
    const before = event.shiftKey || event.ctrlKey || event.metaKey ? selection.list : [];
    const start = { x: event.pageX, y: event.pageY };
    const frame = make("div", { class: "frame" });
    event.preventDefault();

    const move = (now) => {
      if (!frame.isConnected && Math.hypot(now.pageX - start.x, now.pageY - start.y) < 5) return;
      document.body.append(frame);
      const [left, top] = [Math.min(start.x, now.pageX), Math.min(start.y, now.pageY)];
      const [width, height] = [Math.abs(now.pageX - start.x), Math.abs(now.pageY - start.y)];
      Object.assign(frame.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
      const box = frame.getBoundingClientRect();
      const inside = findAll(`.thumb`, area).filter((thumb) => {
        const other = thumb.getBoundingClientRect();
        return other.left < box.right && other.right > box.left && other.top < box.bottom && other.bottom > box.top;
      });
      selection.set([...before, ...inside.map((thumb) => Number(thumb.dataset.dot))]);
    };
    const end = () => {
      removeEventListener("pointermove", move);
      if (!frame.isConnected) selection.clear();
      frame.remove();
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
  });
}
