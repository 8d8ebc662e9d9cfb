/* All images of a class, or the unsure ones, in a list of any length. */

import { find, percent, thousands } from "./dom.js";
import { makeGrid } from "./grid.js";

export function makeImages(app) {
  const { store, selection } = app;
  const grid = makeGrid(find("#images-grid"), app.thumb);
  let [wanted, shown] = ["unsure", []];

  const caption = (i) => {
    const { said, cls } = store.state;
    if (said[i]) return ["", "confirmed", "ignored"][said[i]];
    const chance = percent(store.state.probability[i]);
    if (wanted !== "unsure") return chance;
    return cls[i] === null ? "no class fits" : `${store.album.name(i)}, ${chance}`;
  };

  /** The images of the view, in the chosen order. */
  function chosen() {
    const { album, state } = store;
    const lists = { unsure: () => store.unsure(), ignored };
    const all = lists[wanted]?.() ?? [...album.members.get(wanted)];
    const text = find("#images-filter").value.trim().toLowerCase();
    const right = (i) => `${album.name(i)}\n${album.path[i]}`.toLowerCase().includes(text);
    const found = text ? all.filter(right) : all;
    const by = find("#images-sort").value;
    const doubt = (a, b) => state.probability[a] - state.probability[b];
    const alphabet = (a, b) => album.path[a].localeCompare(album.path[b], undefined, { numeric: true });
    if (by === "path") return found.sort(alphabet);
    return found.sort(by === "typical" ? (a, b) => doubt(b, a) : doubt);
  }

  const ignored = () => store.state.said.map((said, i) => (said === 2 ? i : -1)).filter((i) => i >= 0);

  function refresh() {
    if (typeof wanted === "number" && !store.album.members.has(wanted)) return (location.hash = "#classes");
    const titles = { unsure: "Unsure images", ignored: "Ignored images" };
    find("#images-title").textContent = titles[wanted] ?? store.find(wanted).label;
    shown = chosen();
    find("#images-count").textContent = thousands(shown.length);
    const count = ignored().length;
    const aside = count ? ` ${thousands(count)} images are ignored.` : "";
    const notes = { unsure: `Nobody has said where these belong, and the model is not sure.${aside}` };
    notes.ignored = "They are of no class and are left alone; select some and take that back.";
    find("#images-note").textContent = notes[wanted] ?? "Select images, then move, confirm, reject or ignore them.";
    if (wanted === "unsure" && count) {
      const link = document.createElement("a");
      link.href = "#ignored";
      link.textContent = "Show them";
      find("#images-note").append(" ", link);
    }
    grid.set(shown, caption);
    return null;
  }

  find("#images-filter").oninput = find("#images-sort").onchange = refresh;
  find("#images-all").onclick = () => selection.set(shown);
  return {
    refresh,
    show(which) {
      if (which !== wanted) find("#images-filter").value = "";
      wanted = which;
      refresh();
    },
  };
}
