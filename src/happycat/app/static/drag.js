/* Dragging selected pictures onto a class, or one class onto another; classes are also on a tray while dragging. */

import { find, findAll, make, thousands } from "./dom.js";

const EDGE = 70; // pixels from the window's edge where it scrolls

/** What is dragged from an element: {images} or {cls}; null if nothing can be. */
function loadOf(target, selection) {
  const thumb = target.closest(".gallery[data-pick] .thumb");
  if (thumb) {
    const i = Number(thumb.dataset.dot);
    return { images: selection.images.has(i) ? selection.list : [i] };
  }
  const head = target.closest("[data-handle]");
  return head && !target.closest("input, button, a") ? { cls: Number(head.dataset.handle) } : null;
}

/** Follow drags; `drop` gets what was dragged and where: a class's id, "new" or "ignore". */
export function followDrags(app, drop) {
  const { store, selection } = app;
  const tray = find("#tray");
  let drag = null;

  document.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || event.shiftKey || event.ctrlKey || event.metaKey) return;
    const load = loadOf(event.target, selection);
    if (load) drag = { load, x: event.clientX, y: event.clientY, ghost: null, target: null };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    if (!drag.ghost && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < 7) return;
    if (!drag.ghost) begin();
    [drag.x, drag.y] = [event.clientX, event.clientY];
    follow();
  });
  document.addEventListener("pointerup", () => drag && end(true));
  document.addEventListener("pointercancel", () => drag && end(false));
  document.addEventListener("dragstart", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => event.key === "Escape" && drag && end(false));

  function begin() {
    const { images, cls } = drag.load;
    app.tip.hide();
    if (images && !selection.images.has(images[0])) selection.set(images, images[0]);
    const pictures = images ? images.slice(0, 3).filter((i) => store.album.thumbnail[i]).map(app.picture) : [];
    const words = images ? `${thousands(images.length)} image${images.length > 1 ? "s" : ""}` : store.find(cls).label;
    drag.ghost = document.body.appendChild(make("div", { class: "ghost" }, ...pictures, make("span", {}, words)));
    document.body.classList.add("dragging-now");
    fillTray();
    scroll();
  }

  function fillTray() {
    const { images, cls } = drag.load;
    const entry = (key, face, note) => make("li", { "data-drop": key }, face, make("span", { class: "quiet" }, note));
    const classes = store.living.filter(({ id }) => id !== cls).map(({ id, label, images: count }) =>
      entry(id, make("span", {}, store.album.glyph(id), make("bdi", {}, label)), thousands(count)));
    const more = images ? [entry("new", "New class", ""), entry("ignore", "Ignore", "")] : [];
    tray.replaceChildren(make("h4", {}, images ? "Move to" : "Merge with"), make("ul", {}, ...more, ...classes));
    tray.hidden = false;
  }

  function follow() {
    drag.ghost.style.transform = `translate(${drag.x + 14}px, ${drag.y + 10}px)`;
    const target = document.elementFromPoint(drag.x, drag.y)?.closest("[data-drop]") ?? null;
    const from = drag.load.images?.map((i) => store.state.cls[i]) ?? [drag.load.cls];
    const own = target !== null && from.every((cls) => String(cls) === target.dataset.drop);
    drag.target?.classList.remove("target");
    drag.target = own ? null : target;
    drag.target?.classList.add("target");
  }

  /** Scroll while the pointer is near the upper or lower edge. */
  function scroll() {
    if (!drag?.ghost) return;
    const below = drag.y - (innerHeight - EDGE);
    const above = EDGE - drag.y;
    const box = tray.getBoundingClientRect();
    const area = drag.x > box.left ? tray : window;
    if (below > 0 || above > 0) {
      area.scrollBy(0, below > 0 ? below / 4 : -above / 4);
      follow();
    }
    requestAnimationFrame(scroll);
  }

  function end(dropped) {
    const { load, ghost, target } = drag;
    drag = null;
    if (!ghost) return;
    ghost.remove();
    tray.hidden = true;
    document.body.classList.remove("dragging-now");
    for (const one of findAll(".target")) one.classList.remove("target");
    // the click that follows the end of a drag opens nothing
    const swallow = (event) => event.stopPropagation();
    addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
    if (dropped && target) drop(load, target.dataset.drop);
  }
}
