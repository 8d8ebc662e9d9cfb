/* One image large: its class, probability and next candidates; arrows go to its neighbours. */

import { get } from "./api.js";
import { chosenClass } from "./dialogs.js";
import { fileName, find, make, percent } from "./dom.js";
import { focusImage, keepFocus } from "./focus.js";

/** The dialog for one image; returns a function that opens it for an image of a list. */
export function makePicture(app) {
  const { store } = app;
  const dialog = find("#picture");
  const [frame, side] = [make("div", { class: "large" }), make("div", { class: "side" })];
  const spoken = make("p", { class: "hidden", role: "status" }); // for those who do not see the image change
  dialog.append(frame, side, spoken);
  let [images, at, candidates] = [[], 0, []];

  const image = () => images[at];
  const tool = (words, key, act) => {
    const made = make("button", { type: "button", "aria-keyshortcuts": key, title: `${words} (${key})` }, words);
    made.onclick = act;
    return made;
  };
  const say = (verb, words) => () => app.act(verb, { images: [image()] }, words);

  async function move() {
    const to = await chosenClass(store, "Move to", candidates.map(({ id }) => id), store.state.cls[image()]);
    if (to) app.moveTo([image()], to);
  }

  function step(by) {
    at = (at + by + images.length) % images.length;
    show();
  }

  function take({ id, label }) {
    const same = id === store.state.cls[image()];
    if (same) app.act("confirm", { images: [image()] }, `Confirmed as ${label}`);
    else app.act("move", { images: [image()], to: id }, `Moved to ${label}`);
  }

  async function show() {
    const i = image();
    const { album, state, images: { id, files } } = store;
    const alt = `${fileName(album.path[i])}: ${album.about(i)}`;
    const face = files ? make("img", { src: `image/${id}/${i}`, alt }) : make("p", { class: "note" }, album.path[i]);
    const name = make("h3", {}, album.glyph(album.keys[i]), make("bdi", {}, album.name(i)));
    const said = ["", "confirmed", "ignored"][state.said[i]] || (state.unsure[i] ? "unsure" : "");
    const words = make("p", { class: "quiet" }, [percent(state.probability[i]), said].filter(Boolean).join(", "));
    const list = make("ol", { class: "candidates", "aria-label": "Candidates" });
    const ignore = state.said[i] === 2 ? tool("Do not ignore", "I", say("unignore", "Not ignored any more"))
      : tool("Ignore", "I", say("ignore", "Ignored"));
    const tools = [tool("Confirm", "C", say("confirm", "Confirmed")), tool("Reject", "R", say("reject", "Rejected"))];
    tools.push(ignore, tool("Move", "M", move));
    const path = make("p", { class: "path quiet" }, make("bdi", {}, album.path[i]));
    const [back, on] = [tool("Previous", "←", () => step(-1)), tool("Next", "→", () => step(1))];
    const walk = make("div", { class: "row walk" }, back, on, tool("Close", "Esc", () => dialog.close()));
    const parts = [name, words, list, make("div", { class: "row" }, ...tools), path, walk];
    frame.replaceChildren(face);
    keepFocus(side, () => side.replaceChildren(...parts));
    if (!dialog.contains(document.activeElement)) dialog.focus();
    spoken.textContent = `${at + 1} of ${images.length}: ${album.about(i)}${said && `, ${said}`}`;
    candidates = await get(`api/candidates/${i}`);
    if (i === image()) list.replaceChildren(...candidates.map(candidate));
  }

  function candidate(one, n) {
    const own = one.id === store.state.cls[image()];
    const face = [make("kbd", {}, n + 1), make("bdi", {}, one.label), make("span", {}, percent(one.probability))];
    const made = make("button", { type: "button", "aria-pressed": own }, ...face);
    made.onclick = () => take(one);
    return make("li", {}, made);
  }

  dialog.tabIndex = -1;
  dialog.onclose = () => {
    const { activeElement: held } = document; // where it was before, unless that was drawn anew meanwhile
    if (held === document.body || dialog.contains(held)) focusImage(image(), store.state.cls[image()]);
  };
  dialog.onclick = (event) => event.target === dialog && dialog.close();
  dialog.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), m: move };
    Object.assign(acts, { c: say("confirm", "Confirmed"), r: say("reject", "Rejected") });
    acts.i = store.state.said[image()] === 2 ? say("unignore", "Not ignored any more") : say("ignore", "Ignored");
    const number = candidates[Number(event.key) - 1];
    const act = number ? () => take(number) : acts[event.key] ?? acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  };
  store.addEventListener("change", () => dialog.open && (image() < store.album.size ? show() : dialog.close()));

  return (i, order = [i]) => {
    images = order.includes(i) ? [...order] : [i];
    at = images.indexOf(i);
    app.tip.hide();
    if (!dialog.open) dialog.showModal();
    dialog.focus();
    show();
  };
}
