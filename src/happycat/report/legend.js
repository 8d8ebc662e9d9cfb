/* The legend of the map: a class is shown or not; pointing at it lights its marks. */

import { find, make, thousands } from "./dom.js";

const HEADS = { new: "New", known: "Known", none: "Neither" };

/** The legend beside the map; `only` shows one class alone, or all with null. */
export function makeLegend(map, album) {
  const toggles = new Map();
  const list = find("#legend");

  function update() {
    for (const [key, button] of toggles) button.setAttribute("aria-pressed", !map.hidden.has(key));
    map.redraw();
  }

  function only(wanted) {
    for (const key of album.marks.keys()) map.hidden[wanted === null || key === wanted ? "delete" : "add"](key);
    update();
  }

  function entry(key, name, count) {
    const parts = [album.glyph(key), make("bdi", {}, name), " ", make("span", { class: "count" }, thousands(count))];
    const words = `${name}: ${thousands(count)} ${count === 1 ? "image" : "images"}`;
    const toggle = make("button", { type: "button", class: "toggle", "aria-pressed": true, title: words }, ...parts);
    const alone = make("button", { type: "button", class: "only", "aria-label": `Show only ${name}` }, "only");
    const item = make("li", { class: "entry", "data-key": key }, toggle, alone);
    toggle.onclick = () => (map.hidden.delete(key) || map.hidden.add(key), update());
    alone.onclick = () => only(key);
    item.onpointerenter = item.onfocusin = () => map.light(key);
    item.onpointerleave = item.onfocusout = () => map.light(null);
    toggles.set(key, toggle);
    return item;
  }

  /** Show the classes that the album has now. */
  function refresh() {
    toggles.clear();
    list.replaceChildren();
    let group = null;
    for (const [key, { name, kind }] of album.marks) {
      const count = album.members.get(key).length;
      if (!count) continue;
      if (kind !== group) list.append(make("li", { class: "group" }, HEADS[kind]));
      group = kind;
      list.append(entry(key, name, count));
    }
    update();
  }

  /** Show which class is pointed at on the map. */
  map.follow((key) => {
    for (const item of list.children) item.classList.toggle("lit", item.dataset.key === String(key));
    const item = find(".lit", list);
    if (item) list.scrollTop += Math.min(0, item.offsetTop - list.scrollTop) || Math.max(0, item.offsetTop + item.offsetHeight - list.scrollTop - list.clientHeight);
  });
  find("#legend-all").onclick = () => only(null);
  find("#legend-unsure").onchange = (event) => map.setUnsureOnly(event.target.checked);
  refresh();
  return { only, refresh };
}
